package kinds

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
)

// Firewall closes the public interfaces of the servers that it is applied to, except for its rules.
type Firewall struct {
	Name    string  `res:"forbid" tf:"name"`
	ApplyTo Applied `tf:"apply_to,block"`
	Rules   []Rule  `tf:"rule,block"`
	Labels  Labels  `tf:"labels"`

	ID string `res:"out,id" out:"id"`
}

// Applied is to what a firewall is applied: the servers that a label selector selects.
type Applied struct {
	Selector string `tf:"label_selector"`
}

// Rule allows traffic.
type Rule struct {
	Direction string   `tf:"direction"`
	Protocol  string   `tf:"protocol"`
	Port      string   `tf:"port"`
	Sources   []string `tf:"source_ips"`
}

// Firewalls is the kind of Firewall.
var Firewalls = resource.Kind[Firewall, *Client]{
	Name:  "hcloud_firewall",
	API:   api,
	Phase: resource.Security,
	Tasks: []string{"Firewall"},
	Early: true,
	Key:   func(f *Firewall) string { return f.Name },
	Tidy: func(f *Firewall) {
		rules := slices.Clone(f.Rules) // do not modify the caller's
		for i := range rules {
			rules[i].Sources = slices.Clone(rules[i].Sources)
			for j, r := range rules[i].Sources {
				if p, err := netip.ParsePrefix(r); err == nil { // otherwise, the API rejects it
					rules[i].Sources[j] = p.Masked().String()
				}
			}
		}
		f.Rules = rules
	},
	List: func(ctx context.Context, c *Client, s resource.Scope) ([]*Firewall, error) {
		return ownList(ctx, c, "firewalls", s.Cluster, firewallOf)
	},
	Create: func(ctx context.Context, c *Client, f *Firewall) error {
		return create(ctx, c, "firewalls", &f.ID, map[string]any{
			"name": f.Name, "labels": f.Labels, "rules": ruleRequests(f), "apply_to": []any{selecting(f.ApplyTo.Selector)}})
	},
	Update: []resource.Setter[Firewall, *Client]{
		{Fields: []string{"Rules"}, Set: func(ctx context.Context, c *Client, have, want *Firewall) error {
			return c.Act(ctx, have.ID, "set_rules", map[string]any{"rules": ruleRequests(want)})
		}},
		{Fields: []string{"ApplyTo"}, Set: func(ctx context.Context, c *Client, have, want *Firewall) error {
			return c.Act(ctx, have.ID, "apply_to_resources", map[string]any{"apply_to": []any{selecting(want.ApplyTo.Selector)}})
		}},
		relabel(func(f *Firewall) (string, Labels) { return f.ID, f.Labels }),
	},
	Delete: func(ctx context.Context, c *Client, f *Firewall) error {
		if err := c.Delete(ctx, f.ID); err != nil {
			return fmt.Errorf("delete the firewall %s: %w", f.Name, err)
		}
		return nil
	},
}

// selecting returns the target of a label selector.
func selecting(selector string) hetznerapi.Target {
	return hetznerapi.Target{Type: "label_selector", LabelSelector: &hetznerapi.Selector{Selector: selector}}
}

// selected returns the label selector among targets that selects servers of a cluster; "" if there is none.
// All other targets are the user's.
func selected(targets []hetznerapi.Target, cluster string) string {
	for _, t := range targets {
		if t.LabelSelector != nil && strings.HasPrefix(t.LabelSelector.Selector, hetznercloud.Selector(cluster, "")) {
			return t.LabelSelector.Selector
		}
	}
	return ""
}

func ruleRequests(f *Firewall) []hetznerapi.FirewallRule {
	out := []hetznerapi.FirewallRule{}
	for _, r := range f.Rules {
		out = append(out, hetznerapi.FirewallRule{Direction: r.Direction, Protocol: r.Protocol, Port: r.Port, SourceIPs: r.Sources})
	}
	return out
}

func firewallOf(a hetznerapi.Firewall) *Firewall {
	f := &Firewall{Name: a.Name, Labels: a.Labels, ID: hetznerapi.Path("firewalls", a.ID)}
	f.ApplyTo.Selector = selected(a.AppliedTo, a.Labels[hetznercloud.ClusterLabel])
	for _, r := range a.Rules {
		f.Rules = append(f.Rules, Rule{Direction: r.Direction, Protocol: r.Protocol, Port: r.Port, Sources: r.SourceIPs})
	}
	return f
}
