package emulator

import (
	"context"
	"fmt"
	"slices"

	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/standin/tree"
)

// nothing is what an action does whose change is made before it ends.
func nothing(context.Context) error { return nil }

func balancerHandlers() map[string]handler {
	const one = " /load_balancers/{id}"
	return map[string]handler{
		"POST /load_balancers":                   (*call).createBalancer,
		"DELETE" + one:                           func(c *call) (object, error) { return nil, c.delete("load_balancers", nil) },
		"POST" + one + "/actions/add_service":    func(c *call) (object, error) { return c.change("load_balancers", "add_service", c.addService) },
		"POST" + one + "/actions/update_service": func(c *call) (object, error) { return c.change("load_balancers", "update_service", c.updateService) },
		"POST" + one + "/actions/delete_service": func(c *call) (object, error) { return c.change("load_balancers", "delete_service", c.deleteService) },
		"POST" + one + "/actions/add_target":     func(c *call) (object, error) { return c.change("load_balancers", "add_target", c.addTarget) },
		"POST" + one + "/actions/remove_target":  func(c *call) (object, error) { return c.change("load_balancers", "remove_target", c.removeTarget) },
		"POST" + one + "/actions/change_algorithm": func(c *call) (object, error) {
			return c.change("load_balancers", "change_algorithm", func(lb object) error { lb["algorithm"] = c.body; return nil })
		},
		"POST" + one + "/actions/change_type": func(c *call) (object, error) {
			return c.change("load_balancers", "change_load_balancer_type", func(lb object) error {
				t, err := c.named("load_balancer_types", "load_balancer_type")
				if err == nil {
					lb["load_balancer_type"] = t.Object
				}
				return err
			})
		},
		"POST" + one + "/actions/enable_public_interface":  func(c *call) (object, error) { return c.showPublicly(true) },
		"POST" + one + "/actions/disable_public_interface": func(c *call) (object, error) { return c.showPublicly(false) },
		"POST" + one + "/actions/attach_to_network":        func(c *call) (object, error) { return c.attachToNetwork("load_balancers") },
		"POST" + one + "/actions/detach_from_network":      func(c *call) (object, error) { return c.detachFromNetwork("load_balancers") },
	}
}

func (c *call) createBalancer() (object, error) {
	kind, err := c.named("load_balancer_types", "load_balancer_type")
	if err != nil {
		return nil, err
	}
	location := c.store.Find("locations", "network_zone", c.body["network_zone"])
	switch {
	case (c.body["location"] == nil) == (c.body["network_zone"] == nil):
		return nil, invalid("location", "either a location or a network zone is required")
	case c.body["location"] != nil:
		location, err = c.named("locations", "location")
	case location == nil:
		err = invalid("network_zone", "there is no network zone %q", c.body["network_zone"])
	}
	if err == nil {
		err = c.store.Check(c.body, standin.Ref{Field: "network", Kind: "networks"})
	}
	if err != nil {
		return nil, err
	}
	o := object{"load_balancer_type": kind.Object, "location": location.Object, "algorithm": object{"type": "round_robin"}, "services": list{}, "targets": list{}, "private_net": list{},
		"included_traffic": int64(0), "ingoing_traffic": nil, "outgoing_traffic": nil}
	if a := tree.Sub(c.body, "algorithm"); a != nil {
		o["algorithm"] = a
	}
	return c.addBalancer(o)
}

// addBalancer adds a load balancer with the services, the targets and the network of the request.
func (c *call) addBalancer(o object) (object, error) {
	var n *standin.Entry
	private := object{"private_net": list{}}
	if id := c.body["network"]; id != nil {
		n = c.store.Get("networks", id)
		if _, err := c.freeAddress(tree.Sub(o, "location"), n, ""); err != nil {
			return nil, err
		}
		private["private_net"] = list{object{"network": id}}
	}
	for _, s := range tree.Subs(c.body, "services") {
		if err := addService(o, s); err != nil {
			return nil, err
		}
	}
	for _, t := range tree.Subs(c.body, "targets") {
		if err := c.appendTarget(o, t, private); err != nil {
			return nil, err
		}
	}
	lb, err := c.create("load_balancers", o)
	if err != nil {
		return nil, err
	}
	c.addresses++
	lb.Object["public_net"] = object{"enabled": c.body["public_interface"] != false, "ipv4": object{"ip": fmt.Sprintf("198.19.%d.%d", c.addresses/250, c.addresses%250+1), "dns_ptr": nil},
		"ipv6": object{"ip": fmt.Sprintf("2001:db8:%x::1", c.addresses), "dns_ptr": nil}}
	a := c.start("create_load_balancer", c.o.Latency, func(context.Context) error {
		if n == nil {
			return nil
		}
		return c.join(lb, n, object{})
	}, lb, n)
	return object{"load_balancer": c.shown(lb), "action": a}, nil
}

// service returns the service of a load balancer at the port that a request names, or nil.
func service(lb, of object) object {
	for _, s := range tree.Subs(lb, "services") {
		if s["listen_port"] == of["listen_port"] {
			return s
		}
	}
	return nil
}

func addService(lb, s object) error {
	if service(lb, s) != nil {
		return unprocessable("source_port_already_used", "source port %v is already used", s["listen_port"])
	}
	lb["services"] = append(tree.Items(lb, "services"), s)
	return nil
}

func (c *call) addService(lb object) error { return addService(lb, c.body) }

func (c *call) updateService(lb object) error {
	s := service(lb, c.body)
	if s == nil {
		return noService(c.body)
	}
	for k, v := range tree.MergePatch(s, c.body) {
		s[k] = v
	}
	return nil
}

func noService(s object) error {
	return invalid("listen_port", "there is no service at port %v", s["listen_port"])
}

func (c *call) deleteService(lb object) error {
	if service(lb, c.body) == nil {
		return noService(c.body)
	}
	lb["services"] = slices.DeleteFunc(tree.Items(lb, "services"), func(s any) bool { return tree.Has(object{"": s}, ".listen_port", c.body["listen_port"]) })
	return nil
}

func (c *call) addTarget(lb object) error { return c.appendTarget(lb, c.body, lb) }

// appendTarget adds a target to a load balancer that is, or will be, attached to the networks in private.
func (c *call) appendTarget(lb, t, private object) error {
	if err := c.checkTargets("targets", []object{t}); err != nil {
		return err
	}
	if slices.ContainsFunc(tree.Subs(lb, "targets"), func(have object) bool { return isTarget(have, t) }) {
		return unprocessable("target_already_defined", "target already defined for this load balancer")
	}
	if t["use_private_ip"] == true {
		if len(tree.Items(private, "private_net")) == 0 {
			return unprocessable("load_balancer_not_attached_to_network", "load balancer is not attached to a network")
		}
		s := c.store.Get("servers", tree.Sub(t, "server")["id"])
		if s != nil && !slices.ContainsFunc(tree.Subs(private, "private_net"), func(p object) bool { return tree.Has(s.Object, "private_net[].network", p["network"]) }) {
			return unprocessable("server_not_attached_to_network", "server is not attached to the load balancer's network")
		}
	}
	t = tree.Clone(t)
	tree.SetDefault(t, "use_private_ip", false)
	lb["targets"] = append(tree.Items(lb, "targets"), t)
	return nil
}

// isTarget reports whether two targets have the same servers.
func isTarget(a, b object) bool {
	kind := tree.Text(a, "type")
	return a["type"] == b["type"] && tree.Equal(a[kind], b[kind])
}

func (c *call) removeTarget(lb object) error {
	same := func(t object) bool { return isTarget(t, c.body) }
	if !slices.ContainsFunc(tree.Subs(lb, "targets"), same) {
		return invalid("type", "there is no such target")
	}
	lb["targets"] = tree.ListOf(slices.DeleteFunc(tree.Subs(lb, "targets"), same))
	return nil
}

func (c *call) showPublicly(yes bool) (object, error) {
	command := map[bool]string{true: "enable_public_interface", false: "disable_public_interface"}[yes]
	return c.change("load_balancers", command, func(lb object) error { tree.Sub(lb, "public_net")["enabled"] = yes; return nil })
}

// showBalancer adds the health of the targets, and the servers that label selectors select.
func (e *Emulator) showBalancer(o object) {
	health := func(s *standin.Entry) list {
		out := list{}
		for _, v := range tree.Subs(o, "services") {
			status := "unhealthy"
			if s.Object["status"] == running && (e.o.Healthy == nil || e.o.Healthy(e.machineOf(s), int(tree.Number(v, "destination_port")))) {
				status = "healthy"
			}
			out = append(out, object{"listen_port": v["listen_port"], "status": status})
		}
		return out
	}
	for _, t := range tree.Subs(o, "targets") {
		found := list{}
		for _, s := range e.targets(t) {
			found = append(found, object{"type": "server", "server": object{"id": s.ID()}, "use_private_ip": t["use_private_ip"], "health_status": health(s)})
		}
		if t["type"] == "label_selector" {
			t["targets"] = found
		} else {
			for _, f := range found {
				t["health_status"] = f.(object)["health_status"]
			}
		}
	}
}
