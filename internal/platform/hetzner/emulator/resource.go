package emulator

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/standin/tree"
)

// resource is what all objects of a kind have in common.
type resource struct {
	singular string
	refs     []standin.Ref
	// created reports that users create the objects, which have labels and a unique name; others exist
	// from the start, or come with these. protected ones have a protection.
	created, protected bool
}

// resources are the kinds of objects, by their names in paths.
var resources = map[string]resource{
	"actions": {singular: "action"}, "locations": {singular: "location"}, "datacenters": {singular: "datacenter"}, "server_types": {singular: "server_type"},
	"load_balancer_types": {singular: "load_balancer_type"}, "images": {singular: "image"}, "primary_ips": {singular: "primary_ip"}, "rrsets": {singular: "rrset"},
	"ssh_keys": {singular: "ssh_key", created: true}, "placement_groups": {singular: "placement_group", created: true},
	"networks": {singular: "network", created: true, protected: true}, "zones": {singular: "zone", created: true, protected: true},
	"servers":        {singular: "server", created: true, protected: true, refs: []standin.Ref{{Field: "private_net[].network", Kind: "networks"}, {Field: "placement_group.id", Kind: "placement_groups"}}},
	"firewalls":      {singular: "firewall", created: true, refs: []standin.Ref{{Field: "applied_to[].server.id", Kind: "servers"}}},
	"load_balancers": {singular: "load_balancer", created: true, protected: true, refs: []standin.Ref{{Field: "private_net[].network", Kind: "networks"}, {Field: "targets[].server.id", Kind: "servers"}}},
	"volumes":        {singular: "volume", created: true, protected: true, refs: []standin.Ref{{Field: "server", Kind: "servers"}}},
}

// resourceHandlers returns the handlers that all kinds have.
func resourceHandlers() map[string]handler {
	out := map[string]handler{"GET /actions": (*call).listActions}
	for name, r := range resources {
		one := "/" + name + "/{id}"
		switch name {
		case "rrsets", "datacenters": // which are in zones, and no longer listed
			continue
		case "zones":
			one = "/zones/{id_or_name}"
		}
		if name != "actions" {
			out["GET /"+name] = func(c *call) (object, error) { return c.page(name, c.store.Read(name)) }
		}
		out["GET "+one] = func(c *call) (object, error) { return c.read(name) }
		if !r.created {
			continue
		}
		out["PUT "+one] = func(c *call) (object, error) { return c.update(name) }
		if name == "ssh_keys" || name == "placement_groups" {
			out["POST /"+name] = func(c *call) (object, error) { return c.createPlain(name) }
			out["DELETE "+one] = func(c *call) (object, error) { return nil, c.delete(name, nil) }
			continue
		}
		if r.protected {
			out["POST "+one+"/actions/change_protection"] = func(c *call) (object, error) {
				return c.change(name, "change_protection", func(o object) error {
					maps.Copy(tree.Sub(o, "protection"), c.body)
					return nil
				})
			}
		}
		out["GET "+one+"/actions"] = func(c *call) (object, error) { return c.actionsOf(name) }
		out["GET /"+name+"/actions"] = func(c *call) (object, error) { return c.actionsOf(name) }
		out["GET /"+name+"/actions/{id}"] = func(c *call) (object, error) { return c.read("actions") }
	}
	return out
}

// find returns the object of a call.
func (c *call) find(name string) (*standin.Entry, error) {
	text := cmp.Or(c.variables["id"], c.variables["id_or_name"])
	if id, err := strconv.ParseInt(text, 10, 64); err == nil {
		if e := c.store.Get(name, id); e != nil {
			return e, nil
		}
	}
	if e := c.store.Find(name, "name", c.variables["id_or_name"]); e != nil {
		return e, nil
	}
	return nil, refusal(http.StatusNotFound, "not_found", "%s with ID '%s' not found", resources[name].singular, text)
}

// free returns the object of a call that changes it, which must not be locked.
func (c *call) free(name string) (*standin.Entry, error) {
	e, err := c.find(name)
	if err == nil && e.Busy > 0 {
		err = locked(e)
	}
	return e, err
}

// read returns the object of a call, as reads see it.
func (c *call) read(name string) (object, error) {
	for _, o := range c.store.Read(name) {
		if text := cmp.Or(c.variables["id"], c.variables["id_or_name"]); fmt.Sprint(o["id"]) == text || name == "zones" && o["name"] == text {
			return object{resources[name].singular: c.show(name, o)}, nil
		}
	}
	_, err := c.find(name)
	if err == nil {
		err = refusal(http.StatusNotFound, "not_found", "%s not found", resources[name].singular)
	}
	return nil, err
}

// shown returns an object as the response to a change.
func (e *Emulator) shown(x *standin.Entry) object { return e.show(x.Kind, tree.Clone(x.Object)) }

// show adds the fields that follow from other objects.
func (e *Emulator) show(name string, o object) object {
	switch name {
	case "servers":
		e.showServer(o)
	case "networks":
		o["servers"], o["load_balancers"] = e.using("servers", "private_net[].network", o["id"]), e.using("load_balancers", "private_net[].network", o["id"])
	case "placement_groups":
		o["servers"] = e.using("servers", "placement_group.id", o["id"])
	case "firewalls":
		e.showFirewall(o)
	case "load_balancers":
		e.showBalancer(o)
	}
	return o
}

// using returns the IDs of the objects of a kind whose field has a value.
func (e *Emulator) using(name, field string, value any) list {
	out := list{}
	for _, x := range e.store.All(name) {
		if tree.Has(x.Object, field, value) {
			out = append(out, x.ID())
		}
	}
	return out
}

// create adds an object with the name and the labels of the request.
func (c *call) create(name string, o object) (*standin.Entry, error) {
	o["name"], o["labels"], o["created"] = c.body["name"], c.body["labels"], stamp(c.Now())
	if resources[name].protected {
		tree.SetDefault(o, "protection", object{"delete": false})
	}
	if c.body["labels"] == nil {
		o["labels"] = object{}
	}
	if err := c.checkName(name, tree.Text(o, "name")); err != nil {
		return nil, err
	}
	o["id"] = c.store.NextID()
	return c.store.Add(name, o)
}

// checkName rejects a name that is empty, or another object's.
func (c *call) checkName(name, text string) error {
	switch {
	case text == "" || name == "servers" && len(validation.IsDNS1123Subdomain(text)) > 0:
		return invalid("name", "the name %q is not valid", text)
	case c.store.Find(name, "name", text) != nil:
		return taken("name", "%s name is already used", resources[name].singular)
	}
	return nil
}

// createPlain creates an object that needs no action: an SSH key or a placement group.
func (c *call) createPlain(name string) (object, error) {
	o := object{"type": c.body["type"]}
	if name == "ssh_keys" {
		print, err := fingerprint(tree.Text(c.body, "public_key"))
		if err != nil {
			return nil, invalid("public_key", "%v", err)
		}
		if c.store.Find(name, "fingerprint", print) != nil {
			return nil, taken("public_key", "SSH key with the same fingerprint already exists")
		}
		o = object{"public_key": c.body["public_key"], "fingerprint": print}
	}
	e, err := c.create(name, o)
	if err != nil {
		return nil, err
	}
	return object{resources[name].singular: c.shown(e)}, nil
}

// update changes the fields of the request.
func (c *call) update(name string) (object, error) {
	e, err := c.find(name)
	if err != nil {
		return nil, err
	}
	if n, given := c.body["name"].(string); given && n != e.Object["name"] {
		if err := c.checkName(name, n); err != nil {
			return nil, err
		}
	}
	for k, v := range c.body {
		e.Object[k] = tree.Clone(v)
	}
	return object{resources[name].singular: c.shown(e)}, nil
}

// delete removes the object of a call, unless it is locked or protected, or check forbids it.
func (c *call) delete(name string, check func(*standin.Entry) error) error {
	e, err := c.deletable(name)
	if err == nil && check != nil {
		err = check(e)
	}
	if err != nil {
		return err
	}
	c.store.Remove(e)
	return nil
}

func (c *call) deletable(name string) (*standin.Entry, error) {
	e, err := c.free(name)
	if err == nil && tree.Bool(tree.Sub(e.Object, "protection"), "delete") {
		err = refusal(http.StatusLocked, "protected", "%s deletion is protected", resources[name].singular)
	}
	return e, err
}

// stamp formats a time as the API does.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05-07:00") }
