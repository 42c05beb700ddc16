// Package zones is what clouds with a DNS service have in common when a cluster's records are created
// and deleted: the kind of placeholders, which names get one, and which records of a zone are the
// cluster's. dns-controller later replaces the placeholders' content.
//
// It must not know any DNS service; it uses each through a records.Provider.
package zones

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/dns/records"
)

// Placeholder is a DNS record of the cluster that exists before its machines publish their
// addresses, so that no resolver caches that the name does not exist. Until then, any content is
// valid.
type Placeholder struct {
	Zone   string   `res:"forbid"` // an identifier of the zone
	Name   string   `res:"forbid"` // lower case, without a trailing dot
	Type   string   `res:"forbid"` // "A", "AAAA" or "TXT"
	TTL    int      `res:"writeonly"`
	Values []string `res:"writeonly"` // as a zone file has them: texts have quotes
}

func (p *Placeholder) key() records.Key { return records.Key{Name: p.Name, Type: p.Type} }

// text identifies a placeholder. An identifier of a zone has no spaces.
func (p *Placeholder) text() string { return p.Zone + " " + p.Type + " " + p.Name }

// Service is a cloud's DNS service, whose client is C.
type Service[C any] struct {
	// Kind and API are the Name and the API of the kind.
	Kind, API string
	// Provider returns the service. A zone is identified by records.Zone's ID alone; one that does not
	// exist is an error of class fault.Gone.
	Provider func(C) records.Provider
}

// Placeholders returns the service's kind of Placeholder. A deletion finds all records of the cluster.
func Placeholders[C any](s Service[C]) resource.Kind[Placeholder, C] {
	return resource.Kind[Placeholder, C]{
		Name:   s.Kind,
		Direct: true,
		API:    s.API,
		Tasks:  []string{"DNSName"},
		Key:    (*Placeholder).text,
		List: func(ctx context.Context, c C, scope resource.Scope) ([]*Placeholder, error) {
			if scope.All {
				return clusterRecords(ctx, s.Provider(c), scope.Cluster)
			}
			return wantedRecords(ctx, s.Provider(c), scope.Names)
		},
		Create: func(ctx context.Context, c C, p *Placeholder) error { return create(ctx, s.Provider(c), p) },
		Delete: func(ctx context.Context, c C, p *Placeholder) error { return remove(ctx, s.Provider(c), p) },
	}
}

// wantedRecords finds the records with these keys, with one call of Records for each zone.
func wantedRecords(ctx context.Context, provider records.Provider, keys []string) ([]*Placeholder, error) {
	names := map[string][]string{} // by zone
	for _, key := range keys {
		zone, rest, _ := strings.Cut(key, " ")
		_, name, _ := strings.Cut(rest, " ")
		if !slices.Contains(names[zone], name) {
			names[zone] = append(names[zone], name)
		}
	}
	var out []*Placeholder
	for _, zone := range slices.Sorted(maps.Keys(names)) {
		sets, err := provider.Records(ctx, records.Zone{ID: zone}, names[zone])
		if err = fault.IgnoreGone(err); err != nil {
			return nil, err
		}
		out = append(out, placeholders(zone, sets)...)
	}
	return slices.DeleteFunc(out, func(p *Placeholder) bool { return !slices.Contains(keys, p.text()) }), nil
}

// clusterRecords finds the records of a cluster in every zone that can contain them.
func clusterRecords(ctx context.Context, provider records.Provider, cluster string) ([]*Placeholder, error) {
	zones, err := provider.Zones(ctx)
	if err != nil {
		return nil, err
	}
	var out []*Placeholder
	for _, z := range zones {
		if !records.IsWithin(cluster, z.Name) {
			continue
		}
		sets, err := provider.Records(ctx, z, nil)
		if err = fault.IgnoreGone(err); err != nil {
			return nil, fmt.Errorf("look for the cluster's records: %w", err)
		}
		isOwned := Owned(cluster, sets)
		out = append(out, slices.DeleteFunc(placeholders(z.ID, sets), func(p *Placeholder) bool { return !isOwned(p.key()) })...)
	}
	return out, nil
}

func placeholders(zone string, sets []records.Set) []*Placeholder {
	out := make([]*Placeholder, len(sets))
	for i, s := range sets {
		out[i] = &Placeholder{Zone: zone, Name: s.Name, Type: s.Type, TTL: s.TTL, Values: s.Texts()}
	}
	return out
}

// create creates the record, unless the cluster has created it since it was observed.
func create(ctx context.Context, provider records.Provider, p *Placeholder) error {
	_, exists, err := read(ctx, provider, p)
	if err != nil || exists {
		return err
	}
	set := records.ParseSet(p.Name, p.Type, p.TTL, p.Values...)
	err = provider.Apply(ctx, records.Zone{ID: p.Zone}, []records.Change{{Upsert: []records.Set{set}}})
	if fault.Is(err, fault.Taken) { // created meanwhile
		return nil
	}
	return err
}

// remove deletes the record with its current content, which a service may require.
func remove(ctx context.Context, provider records.Provider, p *Placeholder) error {
	set, exists, err := read(ctx, provider, p)
	if err != nil || !exists {
		return fault.IgnoreGone(err)
	}
	return fault.IgnoreGone(provider.Apply(ctx, records.Zone{ID: p.Zone}, []records.Change{{Delete: []records.Set{set}}}))
}

// read returns the record as it is now.
func read(ctx context.Context, provider records.Provider, p *Placeholder) (set records.Set, exists bool, err error) {
	sets, err := provider.Records(ctx, records.Zone{ID: p.Zone}, []string{p.Name})
	i := slices.IndexFunc(sets, func(s records.Set) bool { return s.Key == p.key() })
	if err != nil || i < 0 {
		return records.Set{}, false, err
	}
	return sets[i], true, nil
}
