package precheck

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/ops/kubeclient"
)

// Webhook is a webhook that is served by a service of the cluster, and whose failure makes requests
// fail.
type Webhook struct {
	// Object is its configuration, and Name its name.
	Object, Name string
	Service
	// Builtin means that it is called for objects of Kubernetes itself, which machines and the
	// control plane write.
	Builtin bool
}

// APIService is an API that is served by a service of the cluster.
type APIService struct {
	Name string
	Service
	// Message says why it is not available; "" if it is.
	Message string
}

// Service is a service, and whether it has ready endpoints.
type Service struct {
	Of     string // namespace/name
	Exists bool
	Ready  int
}

// problem says what is wrong with a service, or "".
func (s Service) problem() string {
	switch {
	case !s.Exists:
		return "its service " + s.Of + " does not exist"
	case s.Ready == 0:
		return "its service " + s.Of + " has no endpoint that is ready"
	}
	return ""
}

// webhooks stops the upgrade if nodes could no longer join, or pods no longer be created.
func (j *judge) webhooks() {
	for _, w := range j.Webhooks {
		if why := w.problem(); why != "" {
			j.add(w.Object, "its webhook "+w.Name+" must answer, but "+why+": requests that need it fail",
				"repair its pods, set its failurePolicy to Ignore, or delete the configuration", !w.Builtin)
		}
	}
}

// apiServices only warns: replacing machines does not depend on them.
func (j *judge) apiServices() {
	for _, a := range j.APIs {
		why := a.problem()
		if why == "" && a.Message != "" {
			why = "it does not answer: " + a.Message
		}
		if why != "" {
			j.warn("APIService/"+a.Name, why+"; namespaces cannot be deleted meanwhile", "repair its pods, or delete the APIService")
		}
	}
}

// services finds out whether services have ready endpoints, with one query each.
type services struct {
	c    *kubeclient.Client
	have map[string]Service
}

func (s *services) get(ctx context.Context, namespace, name string) (Service, error) {
	key := namespace + "/" + name
	if known, ok := s.have[key]; ok {
		return known, nil
	}
	out := Service{Of: key}
	_, err := s.c.Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return out, fmt.Errorf("read the service %s: %w", key, err)
	}
	out.Exists = err == nil
	list, err := s.c.EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
	if err != nil {
		return out, fmt.Errorf("list the endpoints of the service %s: %w", key, err)
	}
	for _, e := range list.Items {
		for _, p := range e.Endpoints {
			if p.Conditions.Ready == nil || *p.Conditions.Ready {
				out.Ready += len(p.Addresses)
			}
		}
	}
	s.have[key] = out
	return out, nil
}

func observeWebhooks(ctx context.Context, c *kubeclient.Client, s *Observation) error {
	at := &services{c, map[string]Service{}}
	validating, err := c.ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the validating webhooks: %w", err)
	}
	mutating, err := c.MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the mutating webhooks: %w", err)
	}
	add := func(object, name string, policy *admissionv1.FailurePolicyType, client admissionv1.WebhookClientConfig, rules []admissionv1.RuleWithOperations) error {
		if client.Service == nil || policy != nil && *policy == admissionv1.Ignore {
			return nil
		}
		service, err := at.get(ctx, client.Service.Namespace, client.Service.Name)
		s.Webhooks = append(s.Webhooks, Webhook{object, name, service, slices.ContainsFunc(rules, builtin)})
		return err
	}
	for _, v := range validating.Items {
		for _, w := range v.Webhooks {
			if err := add("ValidatingWebhookConfiguration/"+v.Name, w.Name, w.FailurePolicy, w.ClientConfig, w.Rules); err != nil {
				return err
			}
		}
	}
	for _, m := range mutating.Items {
		for _, w := range m.Webhooks {
			if err := add("MutatingWebhookConfiguration/"+m.Name, w.Name, w.FailurePolicy, w.ClientConfig, w.Rules); err != nil {
				return err
			}
		}
	}
	return nil
}

// builtin reports whether a rule applies to objects of Kubernetes itself, whose groups have no dot
// or end with k8s.io.
func builtin(r admissionv1.RuleWithOperations) bool {
	return slices.ContainsFunc(r.APIGroups, func(g string) bool { return !strings.Contains(g, ".") || strings.HasSuffix(g, ".k8s.io") })
}

// apiServiceList holds the fields of kube-aggregator's objects that are read.
type apiServiceList struct {
	Items []struct {
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Service *struct{ Namespace, Name string } `json:"service"`
		} `json:"spec"`
		Status struct {
			Conditions []struct{ Type, Status, Message string } `json:"conditions"`
		} `json:"status"`
	} `json:"items"`
}

func observeAPIServices(ctx context.Context, c *kubeclient.Client, s *Observation) error {
	at := &services{c, map[string]Service{}}
	data, err := c.Path("/apis/apiregistration.k8s.io/v1/apiservices").SetHeader("Accept", "application/json").Do(ctx).Raw()
	var list apiServiceList
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return fmt.Errorf("list the API services: %w", err)
	}
	for _, i := range list.Items {
		if i.Spec.Service == nil {
			continue
		}
		a := APIService{Name: i.Name}
		if a.Service, err = at.get(ctx, i.Spec.Service.Namespace, i.Spec.Service.Name); err != nil {
			return err
		}
		for _, c := range i.Status.Conditions {
			if c.Type == "Available" && c.Status != "True" {
				a.Message = c.Message
			}
		}
		s.APIs = append(s.APIs, a)
	}
	return nil
}
