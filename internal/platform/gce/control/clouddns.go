package control

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/dns"
	"kops.local/kops/internal/platform/gce/gcerest"
	"kops.local/kops/internal/platform/rest"
)

// A change may add at most maxSets record sets, delete as many, and contain at most maxCharacters
// characters of values (Cloud DNS, "Quotas and limits").
const (
	maxSets       = 1000
	maxCharacters = 100_000
)

// zones is dns-controller's provider for Cloud DNS. It is not safe for concurrent use.
type zones struct {
	api     gcerest.Client
	project string
	// current are the record sets as last read, with the changes since: a change must contain what it
	// replaces in full.
	current map[string]map[dns.Key]recordSet
}

// managedZone holds the fields of a zone that are used.
type managedZone struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	DNS  string `json:"dnsName"`
	// A zone that forwards queries, or peers with another network, contains no record sets.
	Forwarding *struct{} `json:"forwardingConfig"`
	Peering    *struct{} `json:"peeringConfig"`
	Directory  *struct{} `json:"serviceDirectoryConfig"`
}

// recordSet is a record set in Cloud DNS's form.
type recordSet struct {
	Name    string    `json:"name"`
	Type    string    `json:"type"`
	TTL     int       `json:"ttl"`
	Values  []string  `json:"rrdatas"`
	Routing *struct{} `json:"routingPolicy,omitempty"` // weights, locations and the like
}

// request is a single request, which is atomic.
type request struct {
	Additions []recordSet `json:"additions,omitempty"`
	Deletions []recordSet `json:"deletions,omitempty"`
}

// openCloudDNS connects to Cloud DNS in the project of this machine.
func openCloudDNS(ctx context.Context, env func(string) string, _ int) (dns.Provider, error) {
	api := newClient(env, time.Now)
	project, err := gcerest.NewMetadata(env, newDirectClient()).Get(ctx, "project/project-id")
	if err == nil && project == "" {
		err = fault.New(fault.NotYet, "the metadata server returned no project")
	}
	if err != nil {
		return nil, fmt.Errorf("get the project of this machine: %w", err)
	}
	return &zones{api: api, project: project, current: map[string]map[dns.Key]recordSet{}}, nil
}

// Zones lists the project's zones, public and private. A zone is identified by its numeric ID, and
// by a name that is unique in the project.
func (z *zones) Zones(ctx context.Context) ([]dns.Zone, error) {
	found, err := gcerest.List[managedZone](ctx, z.api, gcerest.DNS, rest.Request{Path: "projects/" + z.project + "/managedZones"}, "managedZones")
	var out []dns.Zone
	for _, m := range found {
		if m.Forwarding == nil && m.Peering == nil && m.Directory == nil {
			out = append(out, dns.Zone{ID: m.ID, Alias: m.Name, Name: dns.Canonical(m.DNS)})
		}
	}
	return out, err
}

func (z *zones) path(zone dns.Zone) string {
	return "projects/" + z.project + "/managedZones/" + zone.ID
}

// Records lists the record sets of a zone.
func (z *zones) Records(ctx context.Context, zone dns.Zone) ([]dns.Set, error) {
	found, err := gcerest.List[recordSet](ctx, z.api, gcerest.DNS, rest.Request{Path: z.path(zone) + "/rrsets"}, "rrsets")
	if err != nil {
		return nil, err
	}
	var out []dns.Set
	held := map[dns.Key]recordSet{}
	for _, r := range found {
		s := r.toSet()
		out, held[s.Key] = append(out, s), r
	}
	z.current[zone.ID] = held
	return out, nil
}

// toSet converts a record set to the form in which dns-controller compares it.
func (r recordSet) toSet() dns.Set {
	var values []string
	for _, v := range r.Values {
		if raw, err := strconv.Unquote(v); err == nil && r.Type == dns.TXT {
			v = raw
		}
		values = append(values, v)
	}
	s := dns.NewSet(r.Name, r.Type, r.TTL, values...)
	s.Opaque = r.Routing != nil || len(r.Values) == 0
	return s
}

// Apply makes changes in one request, or in several if they exceed its limits. Cloud DNS rejects a
// change if the zone's content has changed since it was read.
func (z *zones) Apply(ctx context.Context, zone dns.Zone, changes []dns.Change) error {
	for _, batch := range z.batches(zone, changes) {
		if err := z.api.Do(ctx, gcerest.DNS, rest.Request{Method: http.MethodPost, Path: z.path(zone) + "/changes", Body: batch}, nil); err != nil {
			return err
		}
		held := z.current[zone.ID]
		for _, r := range batch.Deletions {
			delete(held, r.toSet().Key)
		}
		for _, r := range batch.Additions {
			held[r.toSet().Key] = r
		}
	}
	return nil
}

// batches splits changes into requests, keeping the record sets of a name together.
func (z *zones) batches(zone dns.Zone, changes []dns.Change) []request {
	var out []request
	characters := 0
	for _, c := range changes {
		all, n := z.change(zone, c), 0
		for _, r := range append(all.Additions[:len(all.Additions):len(all.Additions)], all.Deletions...) {
			for _, v := range r.Values {
				n += len(v)
			}
		}
		last := len(out) - 1
		if last < 0 || len(out[last].Additions)+len(all.Additions) > maxSets || len(out[last].Deletions)+len(all.Deletions) > maxSets || characters+n > maxCharacters {
			out, characters = append(out, request{}), 0
			last++
		}
		out[last].Additions = append(out[last].Additions, all.Additions...)
		out[last].Deletions = append(out[last].Deletions, all.Deletions...)
		characters += n
	}
	return out
}

// change converts a change of dns-controller's: replaced record sets are deleted with their current
// content.
func (z *zones) change(zone dns.Zone, c dns.Change) request {
	var out request
	for _, s := range c.Delete {
		if have, ok := z.current[zone.ID][s.Key]; ok {
			out.Deletions = append(out.Deletions, have)
		}
	}
	for _, s := range c.Upsert {
		if have, ok := z.current[zone.ID][s.Key]; ok {
			out.Deletions = append(out.Deletions, have)
		}
		out.Additions = append(out.Additions, newRecordSet(s))
	}
	return out
}

func newRecordSet(s dns.Set) recordSet {
	out := recordSet{Name: s.Name + ".", Type: s.Type, TTL: s.TTL}
	for _, v := range s.Values {
		switch s.Type {
		case dns.TXT:
			v = strconv.Quote(v)
		case dns.CNAME:
			v = strings.TrimSuffix(v, ".") + "."
		}
		out.Values = append(out.Values, v)
	}
	return out
}
