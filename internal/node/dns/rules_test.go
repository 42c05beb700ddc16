package dns

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/contract/labels"
)

// ask returns clusters in which one object requests a name: one for each kind of object.
func ask(namespace, name string) map[string]Snapshot {
	nodes := []*corev1.Node{node("worker", "6.6.6.1", "6.6.6.2"), node("cp", "10.0.0.9", "9.9.9.9", labels.ControlPlane)}
	out := map[string]Snapshot{}
	for _, key := range []string{Internal, External} {
		for _, on := range []string{"worker", "cp"} {
			p := pod("x", on, "6.6.6.1", key, name)
			p.Namespace = namespace
			out["pod on "+on+" "+key] = Snapshot{Nodes: nodes, Pods: []*corev1.Pod{p}}
		}
		for kind, at := range map[corev1.ServiceType]string{corev1.ServiceTypeNodePort: "", corev1.ServiceTypeLoadBalancer: "6.6.6.3"} {
			s := service("x", kind, at, key, name)
			s.Namespace = namespace
			out[string(kind)+" "+key] = Snapshot{Nodes: nodes, Services: []*corev1.Service{s}}
		}
	}
	for _, b := range []networkingv1.IngressLoadBalancerIngress{{IP: "6.6.6.4"}, {Hostname: "evil.example.net"}} {
		i := &networkingv1.Ingress{ObjectMeta: meta("x"), Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: name}}}}
		i.Namespace, i.Status.LoadBalancer.Ingress = namespace, []networkingv1.IngressLoadBalancerIngress{b}
		out["ingress "+b.IP+b.Hostname] = Snapshot{Nodes: nodes, Ingresses: []*networkingv1.Ingress{i}}
	}
	return out
}

// Reserved names come only from a pod of kube-system on a control-plane node, whatever else the
// cluster allows.
func TestReservedNamesComeFromTheControlPlaneOnly(t *testing.T) {
	r := Rules{Owner{Cluster: cluster, API: "api." + cluster}, Families{IPv4: true}, []Domain{{Wildcards: true}, {Name: cluster}, {Name: "internal." + cluster}}}
	reserved := []string{"api." + cluster, hostnames.API(cluster), hostnames.Controller(cluster), hostnames.Etcd("main", cluster), "internal." + cluster,
		"*.internal." + cluster, "any.thing.internal." + cluster, strings.ToUpper("api."+cluster) + ".", `\052.internal.` + cluster}
	for _, namespace := range []string{"tenant", "kube-system"} {
		for _, name := range reserved {
			for kind, seen := range ask(namespace, name) {
				d := r.Desired(seen)
				if plane := namespace == "kube-system" && strings.HasPrefix(kind, "pod on cp"); plane != (len(d.Sets) > 0) || plane == (len(d.Refused) > 0) {
					t.Errorf("%s %s of %s: %v %v", name, kind, namespace, d.Sets, d.Refused)
				}
			}
		}
	}
}

// Other objects' requests neither replace nor withdraw the control plane's records.
func TestOthersChangeNoReservedRecord(t *testing.T) {
	s, m := newScene(), newMemory("example.com")
	const want = "api.internal.k.example.com A 10.0.0.1,10.0.0.2"
	s.controller(m).Round(t.Context())
	for _, pods := range []bool{true, false} { // the API's own pods exist, or cannot be seen
		for kind, seen := range ask("tenant", hostnames.API(cluster)) {
			if pods {
				own := plane("10.0.0.1", "10.0.0.2")
				seen.Nodes, seen.Pods = append(seen.Nodes, own.Nodes...), append(seen.Pods, own.Pods...)
			}
			s.set(seen)
			s.controller(m).Round(t.Context())
			expect(t, m, kind, want)
		}
	}
}

func TestPermissionToPublishAName(t *testing.T) {
	for _, c := range []struct {
		namespace, name, allowed string
		ok                       bool
	}{
		{"shop", cluster, "", true},
		{"shop", "web." + cluster, "", true},
		{"shop", "*." + cluster, "", false},
		{"shop", "*." + cluster, "*." + cluster, true},
		{"shop", "web.x" + cluster, "", false},
		{"shop", "mail.example.com", "", false},
		{"shop", "mail.example.com", "mail.example.com", true},
		{"shop", "mail.example.com", "example.com", true},
		{"shop", "mail.example.com", "*.example.com", true},
		{"shop", "example.com", "*.example.com", false},
		{"shop", "*.example.com", "example.com", false},
		{"shop", "*.apps.example.com", "*.example.com", true},
		{"shop", "mail.example.org", "*", true},
		{"shop", "*.example.org", "*", true},
		{"shop", "_acme-challenge." + cluster, "", false},
		{"shop", "_acme-challenge.api." + cluster, "*", false},
		{"shop", "_acme-challenge." + cluster, "_acme-challenge." + cluster, true},
		{"shop", "_kops-a.web." + cluster, "*", false},
		{"kube-system", "_kops-cname.web." + cluster, "*", false},
		{"kube-system", "mail.example.com", "", true},
		{"kube-system", "*.example.com", "", true},
	} {
		r := Rules{Owner: Owner{Cluster: cluster, API: "api." + cluster}}
		if c.allowed != "" {
			d, err := ParseDomain(c.allowed)
			if err != nil {
				t.Fatal(err)
			}
			r.Allowed = []Domain{d}
		}
		s := service("s", corev1.ServiceTypeLoadBalancer, "1.2.3.4", External, c.name)
		s.Namespace = c.namespace
		if d := r.Desired(Snapshot{Services: []*corev1.Service{s}}); c.ok != (len(d.Sets) == 1) || c.ok != (len(d.Refused) == 0) {
			t.Errorf("%+v: %v %v", c, d.Sets, d.Refused)
		}
	}
	for _, bad := range []string{"", ".", "a.*.b", "**", "a b", "*x.org"} {
		if d, err := ParseDomain(bad); err == nil {
			t.Errorf("%q is the domain %+v", bad, d)
		}
	}
}

// A name is refused before its object has an address to publish.
func TestANameIsRefusedBeforeItHasAnAddress(t *testing.T) {
	r := Rules{Owner: Owner{Cluster: cluster}, Families: Families{IPv4: true}}
	name := hostnames.API(cluster)
	ingress := &networkingv1.Ingress{ObjectMeta: meta("x"), Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: name}}}}
	for what, seen := range map[string]Snapshot{
		"ports without workers":  {Nodes: []*corev1.Node{node("cp", "10.0.0.9", "", labels.ControlPlane)}, Services: []*corev1.Service{service("x", corev1.ServiceTypeNodePort, "", External, name)}},
		"pending load balancer":  {Services: []*corev1.Service{service("x", corev1.ServiceTypeLoadBalancer, "", External, name)}},
		"pending ingress":        {Ingresses: []*networkingv1.Ingress{ingress}},
		"pod without an address": {Nodes: []*corev1.Node{node("w", "10.0.0.1", "")}, Pods: []*corev1.Pod{pod("x", "w", "", Internal, name)}},
	} {
		if d := r.Desired(seen); len(d.Sets) > 0 || len(d.Refused) != 1 || d.Refused[0].Object.Name != "x" {
			t.Errorf("%s: %v %v", what, d.Sets, d.Refused)
		}
	}
}

// events are the events that were written.
type events []string

func (e *events) Refused(_ context.Context, o Object, why string) error {
	*e = append(*e, fmt.Sprintf("%s %s/%s: %s", o.Kind, o.Namespace, o.Name, why))
	return nil
}

func TestRefusalsAreEventsOfTheirObjects(t *testing.T) {
	s, m := newScene(), newMemory("example.com")
	seen := plane("10.0.0.1")
	for i := range 30 {
		web := service(fmt.Sprintf("web%02d", i), corev1.ServiceTypeLoadBalancer, "1.1.1.1", External, "web.example.org")
		web.Namespace = "shop"
		seen.Services = append(seen.Services, web)
	}
	seen.Services = append(seen.Services, service("sys", corev1.ServiceTypeLoadBalancer, "1.1.1.1", External, "sys.example.org"))
	s.set(seen)
	var written events
	c := s.controller(m)
	c.Events = &written
	for i, want := range []int{maxNotices, 31, 31} {
		c.Round(t.Context())
		if len(written) != want {
			t.Errorf("%d events after %d rounds, want %d", len(written), i+1, want)
		}
	}
	all := strings.Join(written, "\n")
	for _, want := range []string{
		`Service shop/web00: web.example.org is not published: the namespace shop may not publish it; add "web.example.org" or a domain that it is in to spec.externalDns.allowedDomains`,
		"Service kube-system/sys: sys.example.org is not published: it is not in any zone that may be changed",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%s\nis not in\n%s", want, all)
		}
	}
	s.now = s.now.Add(noticeAge)
	c.Round(t.Context())
	if len(written) != 31+maxNotices {
		t.Errorf("%d events later", len(written))
	}
	s.now = s.now.Add(time.Second)
	s.set(plane("10.0.0.1"))
	c.Round(t.Context())
	if len(c.notices) != 0 {
		t.Errorf("notices of objects that are gone: %v", c.notices)
	}
}
