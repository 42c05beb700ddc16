package control

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/dns/records"
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
	current map[string]map[records.Key]recordSet
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
func openCloudDNS(ctx context.Context, env func(string) string, _ int) (records.Provider, error) {
	api := newClient(env, time.Now)
	project, err := gcerest.NewMetadata(env, newDirectClient()).Get(ctx, "project/project-id")
	if err == nil && project == "" {
		err = fault.New(fault.NotYet, "the metadata server returned no project")
	}
	if err != nil {
		return nil, fmt.Errorf("get the project of this machine: %w", err)
	}
	return &zones{api: api, project: project, current: map[string]map[records.Key]recordSet{}}, nil
}

// Zones lists the project's zones, public and private. A zone is identified by its numeric ID, and
// by a name that is unique in the project.
func (z *zones) Zones(ctx context.Context) ([]records.Zone, error) {
	found, err := gcerest.List[managedZone](ctx, z.api, gcerest.DNS, rest.Request{Path: "projects/" + z.project + "/managedZones"}, "managedZones")
	var out []records.Zone
	for _, m := range found {
		if m.Forwarding == nil && m.Peering == nil && m.Directory == nil {
			out = append(out, records.Zone{ID: m.ID, Alias: m.Name, Name: records.Canonical(m.DNS)})
		}
	}
	return out, err
}

func (z *zones) path(zone records.Zone) string {
	return "projects/" + z.project + "/managedZones/" + zone.ID
}

// Records lists the record sets of a zone.
func (z *zones) Records(ctx context.Context, zone records.Zone, _ []string) ([]records.Set, error) {
	found, err := gcerest.List[recordSet](ctx, z.api, gcerest.DNS, rest.Request{Path: z.path(zone) + "/rrsets"}, "rrsets")
	if err != nil {
		return nil, err
	}
	var out []records.Set
	held := map[records.Key]recordSet{}
	for _, r := range found {
		s := r.toSet()
		out, held[s.Key] = append(out, s), r
	}
	z.current[zone.ID] = held
	return out, nil
}

// toSet converts a record set to the form in which dns-controller compares it.
func (r recordSet) toSet() records.Set {
	s := records.ParseSet(r.Name, r.Type, r.TTL, r.Values...)
	s.Opaque = r.Routing != nil || len(r.Values) == 0
	return s
}

// Apply makes changes in one request, or in several if they exceed its limits. Cloud DNS rejects a
// change if the zone's content has changed since it was read.
func (z *zones) Apply(ctx context.Context, zone records.Zone, changes []records.Change) error {
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
func (z *zones) batches(zone records.Zone, changes []records.Change) []request {
	all := make([]request, len(changes))
	for i, c := range changes {
		all[i] = z.change(zone, c)
	}
	var out []request
	for _, batch := range records.Batches(all, request.size, maxSets, maxSets, maxCharacters) {
		var one request
		for _, r := range batch {
			one.Additions, one.Deletions = append(one.Additions, r.Additions...), append(one.Deletions, r.Deletions...)
		}
		out = append(out, one)
	}
	return out
}

// size returns how much of its limits a request needs.
func (r request) size() []int {
	characters := 0
	for _, s := range slices.Concat(r.Additions, r.Deletions) {
		for _, v := range s.Values {
			characters += len(v)
		}
	}
	return []int{len(r.Additions), len(r.Deletions), characters}
}

// change converts a change of dns-controller's: replaced record sets are deleted with their current
// content.
func (z *zones) change(zone records.Zone, c records.Change) request {
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

func newRecordSet(s records.Set) recordSet {
	out := recordSet{Name: s.Name + ".", Type: s.Type, TTL: s.TTL}
	for _, v := range s.Texts() {
		if s.Type == records.CNAME {
			v = strings.TrimSuffix(v, ".") + "."
		}
		out.Values = append(out.Values, v)
	}
	return out
}
