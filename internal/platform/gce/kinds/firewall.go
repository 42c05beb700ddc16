package kinds

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcename"
)

// Firewall is a rule that allows traffic to the machines that have a tag. If no ranges and tags are
// set, any source is allowed.
type Firewall struct {
	Name         string         `res:"forbid" tf:"name"`
	Network      resource.Value `res:"forbid" tf:"network"` // Network.ID
	Allow        []Allowed      `tf:"allow,block"`
	SourceRanges []string       `tf:"source_ranges"`
	SourceTags   []string       `tf:"source_tags"`
	TargetTags   []string       `tf:"target_tags"`
	Disabled     bool           `tf:"disabled,zero"`

	ID string `res:"out,id"`
}

// Allowed is a protocol, by name or number, and its ports; none: all.
type Allowed struct {
	Protocol string   `tf:"protocol"`
	Ports    []string `tf:"ports"`
}

// Firewalls is the kind of Firewall.
var Firewalls = resource.Kind[Firewall, *Client]{
	Name:   "google_compute_firewall",
	API:    apiCompute,
	Phase:  resource.Security,
	Tasks:  []string{"FirewallRule"},
	Early:  true,
	Key:    func(f *Firewall) string { return f.Name },
	Grants: func(*Firewall) bool { return true },
	Tidy: func(f *Firewall) {
		ranges := make([]string, len(f.SourceRanges)) // do not modify the caller's ranges
		for i, r := range f.SourceRanges {
			ranges[i] = canonicalRange(r)
		}
		f.SourceRanges = ranges
	},
	List: func(ctx context.Context, c *Client, s resource.Scope) ([]*Firewall, error) {
		w := &world{Scope: s, cluster: s.Cluster}
		list, err := c.allFirewalls(ctx)
		return selectObjects(list, err, func(d *compute.Firewall) bool { return w.isWanted(d.Name) || w.ownFirewall(d) }, firewallOf)
	},
	Create: func(ctx context.Context, c *Client, f *Firewall) error {
		f.ID = "projects/" + c.Project + "/global/firewalls/" + f.Name
		return c.Await(ctx)(c.Compute.Firewalls.Insert(c.Project, f.request()).Context(ctx).Do())
	},
	Update: []resource.Setter[Firewall, *Client]{{Fields: []string{"Allow", "SourceRanges", "SourceTags", "TargetTags", "Disabled"},
		Set: func(ctx context.Context, c *Client, have, want *Firewall) error {
			return c.Await(ctx)(c.Compute.Firewalls.Update(c.Project, have.Name, want.request()).Context(ctx).Do())
		}}},
	Delete: func(ctx context.Context, c *Client, f *Firewall) error {
		return fault.IgnoreGone(c.Await(ctx)(c.Compute.Firewalls.Delete(c.Project, f.Name).Context(ctx).Do()))
	},
}

// firewallRules are the rules that kops creates, each with an optional twin for IPv6. Any other
// rule for the cluster's machines was created by someone who wants it.
var firewallRules = []string{"lb-health-checks", "node-to-node", "master-to-master", "master-to-node", "node-to-master",
	"pod-cidrs-to-node", "pod-cidrs-to-https-api", "ssh-external-to-master", "ssh-external-to-node", "ssh-external-to-bastion",
	"bastion-to-master-ssh", "bastion-to-node-ssh", "nodeport-external-to-node", "kubernetes-master-https", "https-api",
	"kops-controller", "cilium-etcd"}

// twin is the suffix of the names of IPv6 rules.
const twin = "-ipv6"

// ownFirewall reports whether a rule applies only to the cluster's machines, and was created by
// kops or, with Scope.All, by the cloud controller.
func (w *world) ownFirewall(d *compute.Firewall) bool {
	if !w.targetsMachines(d) {
		return false
	}
	if w.All && strings.HasPrefix(d.Name, servicePrefix) {
		return true
	}
	object, ok := gcename.Part(d.Name, w.cluster)
	return ok && slices.Contains(firewallRules, strings.TrimSuffix(object, twin))
}

// targetsMachines reports whether a rule applies only to machines of the cluster. Their tags begin with
// the cluster's whole name, or with its hash; the rest is the same in all clusters.
func (w *world) targetsMachines(d *compute.Firewall) bool {
	tags := gcename.Tags(w.cluster)
	return len(d.TargetTags) > 0 && !slices.ContainsFunc(d.TargetTags, func(t string) bool { return !slices.Contains(tags, t) })
}

// The prefixes of the names that the cloud controller gives; for the firewall rule of a balancer,
// the balancer's name follows.
const (
	servicePrefix         = "k8s-"
	serviceFirewallPrefix = "k8s-fw-"
)

// cutService returns the name of the balancer that a cloud controller's firewall rule is for.
func cutService(rule string) (string, bool) { return strings.CutPrefix(rule, serviceFirewallPrefix) }

func firewallOf(d *compute.Firewall) *Firewall {
	f := &Firewall{Name: d.Name, Network: networkRef(d.Network), SourceRanges: d.SourceRanges, SourceTags: d.SourceTags, TargetTags: d.TargetTags, Disabled: d.Disabled,
		ID: gceapi.Link(d.SelfLink)}
	for _, a := range d.Allowed {
		f.Allow = append(f.Allow, Allowed{Protocol: a.IPProtocol, Ports: a.Ports})
	}
	return f
}

func (f *Firewall) request() *compute.Firewall {
	d := &compute.Firewall{Name: f.Name, Network: networkURL(f.Network), Direction: "INGRESS", SourceRanges: f.SourceRanges, SourceTags: f.SourceTags,
		TargetTags: f.TargetTags, Disabled: f.Disabled, ForceSendFields: []string{"Disabled"}}
	for _, a := range f.Allow {
		d.Allowed = append(d.Allowed, &compute.FirewallAllowed{IPProtocol: a.Protocol, Ports: a.Ports})
	}
	return d
}

// canonicalRange formats a range as Google does. Other text is returned unchanged, and Google
// rejects it.
func canonicalRange(s string) string {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return s
	}
	return p.Masked().String()
}
