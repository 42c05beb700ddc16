package emulator

import (
	"fmt"
	"net/http"
	"slices"

	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/standin/tree"
)

func zoneHandlers() map[string]handler {
	const sets, one = " /zones/{id_or_name}/rrsets", " /zones/{id_or_name}/rrsets/{rr_name}/{rr_type}"
	return map[string]handler{
		"POST /zones": (*call).createZone, "DELETE /zones/{id_or_name}": (*call).deleteZone,
		"GET" + sets: (*call).listSets, "POST" + sets: (*call).createSet, "GET" + one: (*call).getSet, "DELETE" + one: (*call).deleteSet,
		"POST" + one + "/actions/set_records": func(c *call) (object, error) {
			return c.changeSet("set_rrset_records", func(set object) { set["records"] = c.body["records"] })
		},
		"POST" + one + "/actions/change_ttl": func(c *call) (object, error) {
			return c.changeSet("change_rrset_ttl", func(set object) { set["ttl"] = c.body["ttl"] })
		},
	}
}

// createZone creates a zone with its own records.
func (c *call) createZone() (object, error) {
	if c.body["mode"] != "primary" || c.body["zonefile"] != nil {
		return nil, refusal(http.StatusUnprocessableEntity, "unsupported_error", "this emulator has no secondary zones and reads no zone files")
	}
	servers := list{"hydrogen.ns.hetzner.com.", "oxygen.ns.hetzner.com.", "helium.ns.hetzner.de."}
	z, err := c.create("zones", object{"mode": "primary", "ttl": int64(3600), "status": "ok", "registrar": "unknown", "record_count": int64(0),
		"authoritative_nameservers": object{"assigned": servers, "delegated": list{}, "delegation_last_check": nil}})
	if err != nil {
		return nil, err
	}
	if ttl := c.body["ttl"]; ttl != nil {
		z.Object["ttl"] = ttl
	}
	var values list
	for _, s := range servers {
		values = append(values, object{"value": s})
	}
	c.addSet(z, object{"name": "@", "type": "NS", "records": values})
	c.addSet(z, object{"name": "@", "type": "SOA", "records": list{object{"value": "hydrogen.ns.hetzner.com. dns.hetzner.com. 2026010100 86400 10800 3600000 3600"}}})
	for _, set := range tree.Subs(c.body, "rrsets") {
		c.addSet(z, set)
	}
	return object{"zone": c.shown(z), "action": c.start("create_zone", c.o.Latency, nothing, z)}, nil
}

func (c *call) deleteZone() (object, error) {
	z, err := c.deletable("zones")
	if err != nil {
		return nil, err
	}
	return c.act("delete_zone", func() error {
		for _, s := range c.setsOf(z) {
			c.store.Remove(s)
		}
		c.store.Remove(z)
		return nil
	}, z), nil
}

// addSet adds a record set to a zone.
func (c *call) addSet(z *standin.Entry, s object) *standin.Entry {
	o := object{"id": fmt.Sprintf("%s/%s", s["name"], s["type"]), "name": s["name"], "type": s["type"], "ttl": s["ttl"], "records": tree.Clone(tree.Items(s, "records")), "zone": z.ID(),
		"labels": object{}, "protection": object{"change": false}}
	e, _ := c.store.Add("rrsets", o) // they have no limit
	return e
}

func (e *Emulator) setsOf(z *standin.Entry) []*standin.Entry {
	return slices.DeleteFunc(e.store.All("rrsets"), func(x *standin.Entry) bool { return x.Object["zone"] != z.ID() })
}

// set returns the record set with that name and type in the zone of a call; nil if there is none.
func (c *call) set(name, kind any) (z, s *standin.Entry, err error) {
	if z, err = c.find("zones"); err != nil {
		return nil, nil, err
	}
	for _, s := range c.setsOf(z) {
		if s.Object["name"] == name && s.Object["type"] == kind {
			return z, s, nil
		}
	}
	return z, nil, nil
}

// existing returns the record set of a call.
func (c *call) existing() (z, s *standin.Entry, err error) {
	z, s, err = c.set(c.variables["rr_name"], c.variables["rr_type"])
	if err == nil && s == nil {
		err = refusal(http.StatusNotFound, "not_found", "rrset %s/%s not found", c.variables["rr_name"], c.variables["rr_type"])
	}
	return z, s, err
}

func (c *call) listSets() (object, error) {
	z, err := c.find("zones")
	if err != nil {
		return nil, err
	}
	return c.page("rrsets", slices.DeleteFunc(c.store.Read("rrsets"), func(o object) bool { return o["zone"] != z.ID() }))
}

func (c *call) getSet() (object, error) {
	_, s, err := c.existing()
	if err != nil {
		return nil, err
	}
	return object{"rrset": c.shown(s)}, nil
}

func (c *call) createSet() (object, error) {
	z, s, err := c.set(c.body["name"], c.body["type"])
	switch {
	case err != nil:
		return nil, err
	case s != nil:
		return nil, taken("name", "rrset %s/%s already exists", c.body["name"], c.body["type"])
	case len(tree.Items(c.body, "records")) == 0:
		return nil, invalid("records", "a record set has at least one record")
	}
	s = c.addSet(z, c.body)
	return object{"rrset": c.shown(s), "action": c.start("create_rrset", c.o.Latency, nothing, z)}, nil
}

func (c *call) deleteSet() (object, error) {
	z, s, err := c.existing()
	if err != nil {
		return nil, err
	}
	return c.act("delete_rrset", func() error { c.store.Remove(s); return nil }, z), nil
}

func (c *call) changeSet(command string, change func(set object)) (object, error) {
	z, s, err := c.existing()
	if err != nil {
		return nil, err
	}
	return c.act(command, func() error { change(s.Object); return nil }, z), nil
}

// recordInventory lists the record sets other than a zone's own.
func (e *Emulator) recordInventory() []string {
	var out []string
	for _, z := range e.store.All("zones") {
		for _, s := range e.setsOf(z) {
			if id := tree.Text(s.Object, "id"); id != "@/NS" && id != "@/SOA" {
				out = append(out, "rrsets/"+tree.Text(z.Object, "name")+"/"+id)
			}
		}
	}
	return out
}
