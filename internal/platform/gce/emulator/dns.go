package emulator

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"kops.local/kops/internal/standin/tree"
)

// dnsZone is a managed zone, with its record sets by name and type.
type dnsZone struct {
	DNSZone
	records map[string]object
	changes []*dnsChange
}

// dnsChange is a change, and when it became visible.
type dnsChange struct {
	o    object
	done time.Time
}

func (e *Emulator) createZones() {
	for _, z := range e.o.DNSZones {
		if z.Project == "" {
			z.Project = e.o.Project
		}
		if z.ID == 0 {
			z.ID, _ = strconv.ParseUint(e.newID(), 10, 64) // it is a number
		}
		made := &dnsZone{DNSZone: z, records: map[string]object{}}
		made.put(object{"name": z.DNSName, "type": "NS", "ttl": int64(21600), "rrdatas": list{"ns-cloud-a1.googledomains.com.", "ns-cloud-a2.googledomains.com."}})
		made.put(object{"name": z.DNSName, "type": "SOA", "ttl": int64(21600), "rrdatas": list{"ns-cloud-a1.googledomains.com. cloud-dns-hostmaster.google.com. 1 21600 3600 259200 300"}})
		e.dns = append(e.dns, made)
	}
	sortedBy(e.dns, func(z *dnsZone) string { return z.Name })
}

func recordKey(o object) string { return tree.Text(o, "name") + "/" + tree.Text(o, "type") }

func (z *dnsZone) put(o object) { z.records[recordKey(o)] = o }

func dnsHandlers() map[string]handler {
	return map[string]handler{
		"dns.managedZones.list":       (*call).listZones,
		"dns.managedZones.get":        inZone(func(_ *call, z *dnsZone) (object, error) { return z.toObject(), nil }),
		"dns.resourceRecordSets.list": inZone((*call).listRecords),
		"dns.changes.create":          inZone((*call).createChange),
		"dns.changes.get":             inZone((*call).getChange),
	}
}

func (z *dnsZone) toObject() object {
	visibility := "public"
	if z.Private {
		visibility = "private"
	}
	return object{"kind": "dns#managedZone", "id": strconv.FormatUint(z.ID, 10), "name": z.Name, "dnsName": z.DNSName, "visibility": visibility, "description": "",
		"creationTime": "2020-01-01T00:00:00.000Z", "nameServers": z.records[z.DNSName+"/NS"]["rrdatas"]}
}

// inZone returns a handler for a method on a zone, which is named by its name or its ID.
func inZone(do func(*call, *dnsZone) (object, error)) handler {
	return func(c *call) (object, error) {
		name := c.params["managedZone"]
		for _, z := range c.dns {
			if z.Project == c.params["project"] && (z.Name == name || strconv.FormatUint(z.ID, 10) == name) {
				return do(c, z)
			}
		}
		return nil, refusal(http.StatusNotFound, "notFound", "The 'parameters.managedZone' resource named '%s' does not exist.", name)
	}
}

func (c *call) dnsPage(items []object, field string) (object, error) {
	size := 100 // the service's default
	if s := c.params["maxResults"]; s != "" {
		var err error
		if size, err = strconv.Atoi(s); err != nil || size < 1 || size > 1000 {
			return nil, invalid("parameters.maxResults", s, "Must be between 1 and 1000.")
		}
	}
	page, next, err := pageFrom(items, c.params["pageToken"], size)
	if err != nil {
		return nil, err
	}
	out := object{field: tree.ListOf(page)}
	if next != "" {
		out["nextPageToken"] = next
	}
	c.method.Response.Complete(out)
	return out, nil
}

func (c *call) listZones() (object, error) {
	var all []object
	for _, z := range c.dns {
		if name := c.params["dnsName"]; z.Project == c.params["project"] && (name == "" || z.DNSName == name) {
			all = append(all, z.toObject())
		}
	}
	return c.dnsPage(all, "managedZones")
}

func (c *call) listRecords(z *dnsZone) (object, error) {
	if c.params["type"] != "" && c.params["name"] == "" {
		return nil, invalid("parameters.type", c.params["type"], "A type needs a name.")
	}
	var all []object
	for _, key := range sortedKeys(z.records) {
		o := z.records[key]
		if name, kind := c.params["name"], c.params["type"]; (name == "" || o["name"] == name) && (kind == "" || o["type"] == kind) {
			all = append(all, tree.Clone(o))
		}
	}
	return c.dnsPage(all, "rrsets")
}

// shape checks a record set of a change, and converts its name to lower case.
func (z *dnsZone) shape(o object, at string) error {
	name := strings.ToLower(tree.Text(o, "name"))
	data := tree.Texts(o, "rrdatas")
	switch {
	case !strings.HasSuffix(name, "."):
		return invalid(at+".name", name, "It must end with a dot.")
	case name != z.DNSName && !strings.HasSuffix(name, "."+z.DNSName):
		return invalid(at+".name", name, "It is not in the zone "+z.DNSName)
	case tree.Text(o, "type") == "":
		return refusal(http.StatusBadRequest, "required", "The '%s.type' parameter is required but was missing.", at)
	case len(data) == 0:
		return refusal(http.StatusBadRequest, "required", "The '%s.rrdatas' parameter is required but was missing.", at)
	case o["type"] == "CNAME" && (len(data) != 1 || name == z.DNSName):
		return invalid(at+".rrdatas", data, "A CNAME has one record, and is not the top of its zone.")
	}
	for _, d := range data {
		a, err := netip.ParseAddr(d)
		if kind := tree.Text(o, "type"); kind == "A" && (err != nil || !a.Is4()) || kind == "AAAA" && (err != nil || !a.Is6()) || kind == "CNAME" && !strings.HasSuffix(d, ".") {
			return invalid(at+".rrdata", d, "It is not of type "+kind+".")
		}
	}
	o["name"], o["kind"] = name, "dns#resourceRecordSet"
	tree.SetDefault(o, "ttl", int64(0))
	return nil
}

// createChange deletes and adds record sets atomically.
func (c *call) createChange(z *dnsZone) (object, error) {
	if len(tree.Subs(c.body, "additions"))+len(tree.Subs(c.body, "deletions")) == 0 {
		return nil, refusal(http.StatusBadRequest, "required", "The 'entity.change' parameter is required but was missing.")
	}
	to := map[string]object{}
	for key, o := range z.records {
		to[key] = o
	}
	for i, o := range tree.Subs(c.body, "deletions") {
		at := fmt.Sprintf("entity.change.deletions[%d]", i)
		if err := z.shape(o, at); err != nil {
			return nil, err
		}
		switch now := to[recordKey(o)]; {
		case now == nil:
			return nil, refusal(http.StatusNotFound, "notFound", "The '%s' resource named '%s (%s)' does not exist.", at, o["name"], o["type"])
		case now["ttl"] != o["ttl"] || !slices.Equal(slices.Sorted(slices.Values(tree.Texts(now, "rrdatas"))), slices.Sorted(slices.Values(tree.Texts(o, "rrdatas")))):
			return nil, refusal(http.StatusPreconditionFailed, "conditionNotMet", "Precondition not met for '%s'", at)
		case o["name"] == z.DNSName && (o["type"] == "NS" || o["type"] == "SOA"):
			return nil, invalid(at, recordKey(o), "The zone needs it.")
		}
		delete(to, recordKey(o))
	}
	for i, o := range tree.Subs(c.body, "additions") {
		at := fmt.Sprintf("entity.change.additions[%d]", i)
		if err := z.shape(o, at); err != nil {
			return nil, err
		}
		if to[recordKey(o)] != nil {
			return nil, refusal(http.StatusConflict, "alreadyExists", "The resource '%s' named '%s (%s)' already exists", at, o["name"], o["type"])
		}
		for _, other := range to {
			if other["name"] == o["name"] && (other["type"] == "CNAME" || o["type"] == "CNAME") {
				return nil, refusal(http.StatusBadRequest, "cnameResourceRecordSetConflict", "The resource record set '%s (%s)' is invalid because the DNS name has a record of type %s.", o["name"], o["type"], other["type"])
			}
		}
		to[recordKey(o)] = tree.Clone(o)
	}
	z.records = to
	change := tree.Clone(c.body)
	change["kind"], change["id"], change["status"], change["startTime"] = "dns#change", strconv.Itoa(len(z.changes)+1), "pending", c.Now().UTC().Format(time.RFC3339)
	z.changes = append(z.changes, &dnsChange{change, c.Now().Add(c.o.Latency)})
	return tree.Clone(change), nil
}

func (c *call) getChange(z *dnsZone) (object, error) {
	for _, change := range z.changes {
		if change.o["id"] == c.params["changeId"] {
			if !c.Now().Before(change.done) {
				change.o["status"] = "done"
			}
			return tree.Clone(change.o), nil
		}
	}
	return nil, refusal(http.StatusNotFound, "notFound", "The 'parameters.changeId' resource named '%s' does not exist.", c.params["changeId"])
}

// dnsInventory returns the record sets that were created.
func (e *Emulator) dnsInventory() []string {
	var out []string
	for _, z := range e.dns {
		for key, o := range z.records {
			if o["name"] != z.DNSName || o["type"] != "NS" && o["type"] != "SOA" {
				out = append(out, "projects/"+z.Project+"/managedZones/"+z.Name+"/rrsets/"+key)
			}
		}
	}
	return out
}
