package emulator

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/standin/tree"
)

// maxRules is the maximum number of rules of a firewall.
const maxRules = 50

func firewallHandlers() map[string]handler {
	const one = " /firewalls/{id}"
	return map[string]handler{
		"POST /firewalls": (*call).createFirewall,
		"DELETE" + one: func(c *call) (object, error) {
			return nil, c.delete("firewalls", func(f *standin.Entry) error {
				if len(c.covered(f.Object)) > 0 {
					return unprocessable("resource_in_use", "firewall with ID '%d' is still in use", f.ID())
				}
				return nil
			})
		},
		"POST" + one + "/actions/set_rules": func(c *call) (object, error) {
			return actions(c.change("firewalls", "set_firewall_rules", c.setRules))
		},
		"POST" + one + "/actions/apply_to_resources":    func(c *call) (object, error) { return c.apply("apply_to") },
		"POST" + one + "/actions/remove_from_resources": func(c *call) (object, error) { return c.apply("remove_from") },
	}
}

func (c *call) createFirewall() (object, error) {
	o := object{"applied_to": append(list{}, tree.Items(c.body, "apply_to")...)}
	err := c.setRules(o)
	if err == nil {
		err = c.checkTargets("apply_to", tree.Subs(c.body, "apply_to"))
	}
	if err != nil {
		return nil, err
	}
	f, err := c.create("firewalls", o)
	if err != nil {
		return nil, err
	}
	actions := list{c.start("set_firewall_rules", c.o.Latency, nothing, f)}
	if c.body["apply_to"] != nil {
		actions = append(actions, c.start("apply_firewall", c.o.Latency, nothing, f))
	}
	return object{"firewall": c.shown(f), "actions": actions}, nil
}

// setRules sets the rules of a request, complete.
func (c *call) setRules(firewall object) error {
	out := list{}
	for _, r := range tree.Subs(c.body, "rules") {
		needsPort := r["protocol"] == "tcp" || r["protocol"] == "udp"
		side := "source_ips"
		if r["direction"] == "out" {
			side = "destination_ips"
		}
		switch {
		case needsPort != (r["port"] != nil):
			return invalid("rules.port", "a port is required for tcp and udp, and allowed for nothing else")
		case len(tree.Items(r, side)) == 0:
			return invalid("rules."+side, "it is required")
		}
		o := object{"description": nil, "port": nil, "source_ips": list{}, "destination_ips": list{}}
		for k, v := range r {
			o[k] = v
		}
		out = append(out, o)
	}
	if len(out) > maxRules {
		return invalid("rules", "a firewall has at most %d rules", maxRules)
	}
	firewall["rules"] = out
	return nil
}

// checkTargets checks what firewalls and load balancers are to be applied to: servers, or label selectors.
func (c *call) checkTargets(field string, all []object) error {
	for _, t := range all {
		kind := tree.Text(t, "type")
		if tree.Sub(t, kind) == nil {
			return invalid(field+"."+kind, "it is required")
		}
		if _, err := labels.Parse(tree.Text(tree.Sub(t, "label_selector"), "selector")); err != nil {
			return invalid(field+".label_selector", "%v", err)
		}
		if err := c.store.Check(t, standin.Ref{Field: "server.id", Kind: "servers"}); err != nil {
			return err
		}
	}
	return nil
}

// actions returns the response for several actions, of which there is one.
func actions(one object, err error) (object, error) {
	return object{"actions": list{one["action"]}}, err
}

// apply changes to what a firewall is applied.
func (c *call) apply(field string) (object, error) {
	command := map[string]string{"apply_to": "apply_firewall", "remove_from": "remove_firewall"}[field]
	return actions(c.change("firewalls", command, func(f object) error {
		if err := c.checkTargets(field, tree.Subs(c.body, field)); err != nil {
			return err
		}
		for _, t := range tree.Items(c.body, field) {
			rest := slices.DeleteFunc(tree.Items(f, "applied_to"), func(have any) bool { return tree.Equal(have, t) })
			if field == "apply_to" {
				rest = append(rest, t)
			}
			f["applied_to"] = rest
		}
		return nil
	}))
}

// covered returns the servers to which a firewall is applied.
func (e *Emulator) covered(firewall object) []*standin.Entry {
	var out []*standin.Entry
	for _, t := range tree.Subs(firewall, "applied_to") {
		out = append(out, e.targets(t)...)
	}
	return out
}

// targets returns the servers that a target means.
func (e *Emulator) targets(t object) []*standin.Entry {
	if t["type"] == "label_selector" {
		return e.selected(tree.Text(tree.Sub(t, "label_selector"), "selector"))
	}
	if s := e.store.Get("servers", tree.Sub(t, "server")["id"]); s != nil {
		return []*standin.Entry{s}
	}
	return nil
}

// showFirewall adds the servers that label selectors select.
func (e *Emulator) showFirewall(o object) {
	for _, t := range tree.Subs(o, "applied_to") {
		if t["type"] == "label_selector" {
			found := list{}
			for _, s := range e.targets(t) {
				found = append(found, object{"type": "server", "server": object{"id": s.ID()}})
			}
			t["applied_to_resources"] = found
		}
	}
}
