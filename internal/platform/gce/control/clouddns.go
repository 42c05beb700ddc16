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
)

// A change has at most so many sets that it adds, as many that it deletes, and so many
// characters of values (Cloud DNS, "Quotas and limits").
const (
	mostSets       = 1000
	mostCharacters = 100_000
)

// zones is Cloud DNS to dns-controller. It is asked for one thing at a time.
type zones struct {
	api     gcerest.Client
	project string
	// held are the sets of zones as they were read last and changed since: a change names
	// wholly what it replaces.
	held map[string]map[dns.Key]recordSet
}

// managedZone is what is read of a zone.
type managedZone struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	DNS  string `json:"dnsName"`
	// A zone that forwards, or is another network's, holds no sets.
	Forwarding *struct{} `json:"forwardingConfig"`
	Peering    *struct{} `json:"peeringConfig"`
	Directory  *struct{} `json:"serviceDirectoryConfig"`
}

// recordSet is a set as Cloud DNS has it.
type recordSet struct {
	Name    string    `json:"name"`
	Type    string    `json:"type"`
	TTL     int       `json:"ttl"`
	Values  []string  `json:"rrdatas"`
	Routing *struct{} `json:"routingPolicy,omitempty"` // weights, places and the like
}

// change is sent at once: all of it takes effect, or nothing.
type change struct {
	Additions []recordSet `json:"additions,omitempty"`
	Deletions []recordSet `json:"deletions,omitempty"`
}

// openCloudDNS connects to Cloud DNS in the project of this machine.
func openCloudDNS(ctx context.Context, env func(string) string, _ int) (dns.Provider, error) {
	api := client(env, time.Now)
	project, err := gcerest.NewMetadata(env, direct()).Get(ctx, "project/project-id")
	if err == nil && project == "" {
		err = fault.New(fault.NotYet, "the metadata server names no project")
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the project of this machine: %w", err)
	}
	return &zones{api: api, project: project, held: map[string]map[dns.Key]recordSet{}}, nil
}

// Zones lists the zones of the project, public and private: they differ in what identifies
// them, which is a number, and a name that is the project's own.
func (z *zones) Zones(ctx context.Context) ([]dns.Zone, error) {
	found, err := gcerest.List[managedZone](ctx, z.api, http.MethodGet, gcerest.DNS, "projects/"+z.project+"/managedZones", "managedZones", nil)
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
	found, err := gcerest.List[recordSet](ctx, z.api, http.MethodGet, gcerest.DNS, z.path(zone)+"/rrsets", "rrsets", nil)
	if err != nil {
		return nil, err
	}
	var out []dns.Set
	held := map[dns.Key]recordSet{}
	for _, r := range found {
		s := r.observed()
		out, held[s.Key] = append(out, s), r
	}
	z.held[zone.ID] = held
	return out, nil
}

// observed is a set as dns-controller compares it.
func (r recordSet) observed() dns.Set {
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

// Apply makes changes in one call, or in a few where they are more than one takes. Where the
// zone holds something else by now than it did, Cloud DNS refuses.
func (z *zones) Apply(ctx context.Context, zone dns.Zone, changes []dns.Change) error {
	for _, batch := range z.batches(zone, changes) {
		if err := z.api.Do(ctx, http.MethodPost, gcerest.DNS, z.path(zone)+"/changes", nil, batch, nil); err != nil {
			return err
		}
		held := z.held[zone.ID]
		for _, r := range batch.Deletions {
			delete(held, r.observed().Key)
		}
		for _, r := range batch.Additions {
			held[r.observed().Key] = r
		}
	}
	return nil
}

// batches never parts the sets of one name.
func (z *zones) batches(zone dns.Zone, changes []dns.Change) []change {
	var out []change
	characters := 0
	for _, c := range changes {
		all, n := z.change(zone, c), 0
		for _, r := range append(all.Additions[:len(all.Additions):len(all.Additions)], all.Deletions...) {
			for _, v := range r.Values {
				n += len(v)
			}
		}
		last := len(out) - 1
		if last < 0 || len(out[last].Additions)+len(all.Additions) > mostSets || len(out[last].Deletions)+len(all.Deletions) > mostSets || characters+n > mostCharacters {
			out, characters = append(out, change{}), 0
			last++
		}
		out[last].Additions = append(out[last].Additions, all.Additions...)
		out[last].Deletions = append(out[last].Deletions, all.Deletions...)
		characters += n
	}
	return out
}

// change converts a change of dns-controller's: replaced sets are deleted as they are.
func (z *zones) change(zone dns.Zone, c dns.Change) change {
	var out change
	for _, s := range c.Delete {
		if have, ok := z.held[zone.ID][s.Key]; ok {
			out.Deletions = append(out.Deletions, have)
		}
	}
	for _, s := range c.Upsert {
		if have, ok := z.held[zone.ID][s.Key]; ok {
			out.Deletions = append(out.Deletions, have)
		}
		out.Additions = append(out.Additions, wireSet(s))
	}
	return out
}

func wireSet(s dns.Set) recordSet {
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
