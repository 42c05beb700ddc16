package kinds

import (
	"context"
	"slices"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcename"
)

// ForwardingRule forwards an address to a target pool, or to an internal backend service.
type ForwardingRule struct {
	Name      string         `res:"forbid" tf:"name"`
	Address   resource.Value `res:"replace" tf:"ip_address"`            // Address.Address
	Protocol  string         `res:"replace" tf:"ip_protocol"`           // "TCP"
	Scheme    string         `res:"replace" tf:"load_balancing_scheme"` // "EXTERNAL" or "INTERNAL"
	PortRange string         `res:"replace" tf:"port_range"`            // "443-443", with a target
	Target    resource.Value `tf:"target"`                              // TargetPool.ID
	Ports     []string       `res:"replace" tf:"ports"`                 // with a backend service
	Backend   resource.Value `res:"replace" tf:"backend_service"`       // BackendService.ID
	Network   resource.Value `res:"replace" tf:"network"`               // Network.ID
	Subnet    resource.Value `res:"replace" tf:"subnetwork"`            // Subnetwork.ID
	Labels    Labels         `tf:"labels"`

	ID string `res:"out,id" out:"id"`
}

// ForwardingRules is the kind of ForwardingRule, which is created after what it forwards to.
var ForwardingRules = resource.Kind[ForwardingRule, *Client]{
	Name:  "google_compute_forwarding_rule",
	API:   apiCompute,
	Tasks: []string{"ForwardingRule"},
	Early: true,
	Key:   func(r *ForwardingRule) string { return r.Name },
	List: func(ctx context.Context, c *Client, s resource.Scope) ([]*ForwardingRule, error) {
		w := &world{Scope: s, cluster: s.Cluster}
		list, err := w.forwardingRules(ctx, c)
		return selectObjects(list, err, func(*compute.ForwardingRule) bool { return true }, forwardingRuleOf)
	},
	Create: func(ctx context.Context, c *Client, r *ForwardingRule) error {
		r.ID = c.regional("forwardingRules", r.Name)
		return c.Await(ctx)(c.Compute.ForwardingRules.Insert(c.Project, c.Region, &compute.ForwardingRule{Name: r.Name, IPAddress: r.Address.Text(), IPProtocol: r.Protocol,
			LoadBalancingScheme: r.Scheme, PortRange: r.PortRange, Target: url(r.Target), Ports: r.Ports, BackendService: url(r.Backend), Network: networkURL(r.Network),
			Subnetwork: url(r.Subnet), Labels: r.Labels}).Context(ctx).Do())
	},
	Update: []resource.Setter[ForwardingRule, *Client]{
		{Fields: []string{"Target"}, Set: func(ctx context.Context, c *Client, have, want *ForwardingRule) error {
			return c.Await(ctx)(c.Compute.ForwardingRules.SetTarget(c.Project, c.Region, have.Name, &compute.TargetReference{Target: url(want.Target)}).Context(ctx).Do())
		}},
		{Fields: []string{"Labels"}, Set: labelForwardingRule},
	},
	Delete: func(ctx context.Context, c *Client, r *ForwardingRule) error {
		return fault.IgnoreGone(c.Await(ctx)(c.Compute.ForwardingRules.Delete(c.Project, c.Region, r.Name).Context(ctx).Do()))
	},
}

// forwardingRules returns the rules of the cluster's own balancers and, with Scope.All, of its
// Services. A rule that was created but not labelled yet is recognized by one of the cluster's
// backend services, or by the name of the API's public rule.
func (w *world) forwardingRules(ctx context.Context, c *Client) ([]*compute.ForwardingRule, error) {
	services, err := w.services(ctx, c)
	if err != nil {
		return nil, err
	}
	list, err := c.allForwardingRules(ctx)
	return slices.DeleteFunc(slices.Clone(list), func(d *compute.ForwardingRule) bool {
		if w.isWanted(d.Name) {
			return false
		}
		labelled, own := w.owner(d.Labels)
		if _, named := gcename.Part(d.Name, w.cluster); !labelled && named {
			own = w.isOwnName(gceapi.Name(d.BackendService), ownServices...) || d.LoadBalancingScheme != internal && w.isOwnName(d.Name, "api")
		}
		return !own && (labelled || !services[d.Name])
	}), err
}

func forwardingRuleOf(d *compute.ForwardingRule) *ForwardingRule {
	r := &ForwardingRule{Name: d.Name, Address: resource.Lit(d.IPAddress), Protocol: d.IPProtocol, Scheme: d.LoadBalancingScheme, PortRange: d.PortRange,
		Target: link(d.Target), Ports: d.Ports, Backend: link(d.BackendService), Labels: d.Labels, ID: gceapi.Link(d.SelfLink)}
	if d.LoadBalancingScheme == internal {
		r.Network, r.Subnet, r.PortRange = networkRef(d.Network), link(d.Subnetwork), ""
	}
	return r
}

// labelForwardingRule sets labels on a rule, keeping those that others added.
func labelForwardingRule(ctx context.Context, c *Client, have, want *ForwardingRule) error {
	current, err := gceapi.Result(c.Compute.ForwardingRules.Get(c.Project, c.Region, have.Name).Context(ctx).Do())
	if err != nil {
		return err
	}
	return c.Await(ctx)(c.Compute.ForwardingRules.SetLabels(c.Project, c.Region, have.Name, &compute.RegionSetLabelsRequest{
		Labels: resource.WithForeign(want.Labels, current.Labels), LabelFingerprint: current.LabelFingerprint}).Context(ctx).Do())
}
