package zones_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/dns/records"
	"kops.local/kops/internal/platform/zones"
)

// memory is a DNS service with the zones Z1, example.com, and Z2, other.org.
type memory struct {
	have map[records.Key]records.Set // of Z1
	// asked has the names of each question about records.
	asked []string
	// meanwhile is called before changes are applied.
	meanwhile func()
}

func (m *memory) Zones(context.Context) ([]records.Zone, error) {
	return []records.Zone{{ID: "Z1", Name: "example.com"}, {ID: "Z2", Name: "other.org"}}, nil
}

func (m *memory) Records(_ context.Context, z records.Zone, names []string) ([]records.Set, error) {
	m.asked = append(m.asked, z.ID+" "+strings.Join(names, ","))
	if z.ID != "Z1" {
		return nil, fault.New(fault.Gone, "there is no zone %s", z.ID)
	}
	return slices.SortedFunc(maps.Values(m.have), func(a, b records.Set) int { return records.CompareKeys(a.Key, b.Key) }), nil // maybe others, too
}

func (m *memory) Apply(_ context.Context, z records.Zone, changes []records.Change) error {
	if m.meanwhile != nil {
		m.meanwhile()
	}
	for _, c := range changes {
		for _, s := range c.Delete {
			if !m.have[s.Key].Equal(s) {
				return fault.New(fault.Conflict, "%s has changed", s.Name)
			}
			delete(m.have, s.Key)
		}
		for _, s := range c.Upsert {
			if _, exists := m.have[s.Key]; exists {
				return fault.New(fault.Taken, "%s exists", s.Name)
			}
			m.have[s.Key] = s
		}
	}
	return nil
}

func (m *memory) put(sets ...records.Set) {
	for _, s := range sets {
		m.have[s.Key] = s
	}
}

const cluster = "k.example.com"

func start() (*memory, resource.Kind[zones.Placeholder, *memory]) {
	return &memory{have: map[records.Key]records.Set{}},
		zones.Placeholders(zones.Service[*memory]{Kind: "test_placeholder", API: "dns", Provider: func(m *memory) records.Provider { return m }})
}

func TestAPlaceholderIsCreatedAndItsContentLeftAlone(t *testing.T) {
	m, kind := start()
	want := zones.Names{Cluster: cluster, Public: "api." + cluster, HasExternalDNS: true}.Placeholders("Z1")
	var keys []string
	for _, p := range want {
		keys = append(keys, kind.Key(&p))
		if err := kind.Create(t.Context(), m, &p); err != nil {
			t.Fatal(err)
		}
	}
	if s := m.have[records.Key{Name: "api." + cluster, Type: records.TXT}]; !slices.Equal(s.Values, []string{"heritage=external-dns,external-dns/owner=kops-" + cluster}) {
		t.Errorf("the text is %q", s.Values)
	}
	m.put(records.NewSet("api."+cluster, records.A, 60, "10.0.0.1"), records.NewSet("www.example.com", records.A, 60, "10.0.0.2"))
	m.asked = nil
	found, err := kind.List(t.Context(), m, resource.Scope{Cluster: cluster, Names: append(keys, "Z9 A api.k.example.com")})
	if err != nil || len(found) != 6 || !slices.Equal(m.asked, []string{"Z1 api.internal.k.example.com,api.k.example.com,kops-controller.internal.k.example.com", "Z9 api.k.example.com"}) {
		t.Errorf("%d records, %v, by the questions %q", len(found), err, m.asked)
	}
	schema := kind.Erase().Schema()
	for _, have := range found {
		i := slices.Index(keys, kind.Key(have))
		if i < 0 || len(schema.Diff(&want[i], have)) > 0 {
			t.Errorf("%+v would be changed", have)
		}
	}
	if err := kind.Create(t.Context(), m, &want[2]); err != nil || m.have[records.Key{Name: "api." + cluster, Type: records.A}].Values[0] != "10.0.0.1" {
		t.Errorf("a record that exists is created again: %v, %v", err, m.have)
	}
}

func TestARecordThatTheClusterCreatesMeanwhileStays(t *testing.T) {
	m, kind := start()
	real := records.NewSet("api."+cluster, records.A, 60, "10.0.0.1")
	m.meanwhile = func() { m.put(real) }
	p := zones.Placeholder{Zone: "Z1", Name: "api." + cluster, Type: records.A, TTL: 10, Values: []string{"203.0.113.123"}}
	if err := kind.Create(t.Context(), m, &p); err != nil || !m.have[real.Key].Equal(real) {
		t.Errorf("got %v, %v", m.have, err)
	}
	p.Zone = "Z9"
	if err := kind.Create(t.Context(), m, &p); !fault.Is(err, fault.Gone) {
		t.Errorf("a record in a zone that does not exist: %v", err)
	}
}

func TestADeletionRemovesTheClustersRecords(t *testing.T) {
	m, kind := start()
	mark := func(cluster, name string) records.Set {
		return records.NewSet(hostnames.Mark(name, records.A), records.TXT, 60, hostnames.MarkText(cluster))
	}
	set := func(name, kind string) records.Set { return records.NewSet(name, kind, 60, "10.0.0.1") }
	foreign := []records.Set{set("www."+cluster, records.A), set("own."+cluster, records.A), mark("x"+cluster, "own."+cluster), set("api.my."+cluster, records.A), set("example.com", "SOA")}
	m.put(foreign...)
	m.put(set("api."+cluster, records.A), set("shop."+cluster, records.A), mark(cluster, "shop."+cluster))
	found, err := kind.List(t.Context(), m, resource.Scope{Cluster: cluster, All: true})
	if err != nil || len(found) != 3 || !slices.Equal(m.asked, []string{"Z1 "}) {
		t.Fatalf("a deletion finds %v, %v, by the questions %q", found, err, m.asked)
	}
	m.put(records.NewSet("api."+cluster, records.A, 60, "10.0.0.9")) // by the cluster, which still runs
	for range 2 {
		for _, p := range found {
			if err := kind.Delete(t.Context(), m, p); err != nil {
				t.Error(err)
			}
		}
	}
	if len(m.have) != len(foreign) {
		t.Errorf("there are %v", m.have)
	}
	m.put(set("api."+cluster, records.A))
	m.meanwhile = func() { m.put(records.NewSet("api."+cluster, records.A, 60, "10.0.0.8")) }
	if err := kind.Delete(t.Context(), m, found[1]); !fault.Is(err, fault.Conflict) {
		t.Errorf("a record that changes meanwhile: %v", err)
	}
	if err := kind.Delete(t.Context(), m, &zones.Placeholder{Zone: "Z9", Name: "a"}); err != nil {
		t.Errorf("a record of a zone that does not exist: %v", err)
	}
}

func TestANameThatCannotBeReadIsAnError(t *testing.T) {
	kind := zones.Placeholders(zones.Service[error]{Kind: "test_placeholder", Provider: func(err error) records.Provider { return broken{err} }})
	down := errors.New("the service is down")
	for _, scope := range []resource.Scope{{Cluster: cluster, All: true}, {Cluster: cluster, Names: []string{"Z1 A a"}}} {
		if found, err := kind.List(t.Context(), down, scope); !errors.Is(err, down) || found != nil {
			t.Errorf("got %v, %v", found, err)
		}
	}
	if err := kind.Create(t.Context(), down, &zones.Placeholder{}); !errors.Is(err, down) {
		t.Errorf("got %v", err)
	}
}

// broken is a DNS service that cannot list records.
type broken struct{ err error }

func (b broken) Zones(context.Context) ([]records.Zone, error) {
	return []records.Zone{{ID: "Z1", Name: "example.com"}}, nil
}
func (b broken) Records(context.Context, records.Zone, []string) ([]records.Set, error) {
	return nil, b.err
}
func (b broken) Apply(context.Context, records.Zone, []records.Change) error { return nil }

func TestRecordsThatAreTheClusters(t *testing.T) {
	isOwned := zones.Owned("k.example.com", nil)
	for text, want := range map[string]bool{
		"api.k.example.com A":                      true,
		"api.internal.k.example.com AAAA":          true,
		"bastion.k.example.com A":                  true,
		"kops-controller.internal.k.example.com A": true,
		"etcd-a.internal.k.example.com A":          true,
		"api.k.example.com TXT":                    true,
		"aaaa-api.k.example.com TXT":               true,
		"aaaa-api.k.example.com A":                 false,
		"api.k.example.com CNAME":                  false,
		"www.k.example.com A":                      false,
		"api.other.example.com A":                  false,
		"k.example.com A":                          false,
		"api.sub.k.example.com A":                  false,
		"etcd-events-a.internal.k.example.com A":   true,
		"etcd-a.internal.sub.k.example.com A":      false,
	} {
		name, kind, _ := strings.Cut(text, " ")
		if got := isOwned(records.Key{Name: name, Type: kind}); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
