package control

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/dns"
	"kops.local/kops/internal/node/dns/records"
	"kops.local/kops/internal/platform/gce/gcetest"
)

const dnsBase = "dns/v1/projects/testproject/managedZones"

// names returns a project with zones, where two have the same name and two contain no record
// sets, and dns-controller's provider for it.
func names(t *testing.T) (*gcetest.Cloud, records.Provider) {
	t.Helper()
	c := gcetest.Start(t, map[string]string{"project/project-id": "testproject"})
	for id, z := range map[string]gcetest.Doc{
		"1": {"id": "1", "name": "outer", "dnsName": "example.com.", "visibility": "public"},
		"2": {"id": "2", "name": "inner", "dnsName": "example.com.", "visibility": "private"},
		"3": {"id": "3", "name": "elsewhere", "dnsName": "other.org."},
		"4": {"id": "4", "name": "sent-on", "dnsName": "sub.example.com.", "forwardingConfig": gcetest.Doc{"targetNameServers": []gcetest.Doc{{"ipv4Address": "10.0.0.2"}}}},
		"5": {"id": "5", "name": "anothers", "dnsName": "peer.example.com.", "peeringConfig": gcetest.Doc{}},
	} {
		c.Put(dnsBase+"/"+id, z)
	}
	putRecord(c, "1", "example.com.", "SOA", 21600, "ns.example. admin.example. 1 21600 3600 259200 300")
	p, err := openCloudDNS(t.Context(), c.Env, 0)
	if err != nil {
		t.Fatal(err)
	}
	return c, p
}

func putRecord(c *gcetest.Cloud, zone, name, kind string, ttl int, values ...string) {
	c.Put(dnsBase+"/"+zone+"/rrsets/"+name+" "+kind, gcetest.Doc{"name": name, "type": kind, "ttl": ttl, "rrdatas": values})
}

// recordTexts returns the record sets of a zone as text.
func recordTexts(t *testing.T, p records.Provider, zone records.Zone) string {
	t.Helper()
	all, err := p.Records(t.Context(), zone, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range all {
		if s.Type != "SOA" {
			out = append(out, fmt.Sprintf("%s %s %d %s %v\n", s.Name, s.Type, s.TTL, strings.Join(s.Values, ","), s.Opaque))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "")
}

func TestZonesOfOneNameAreDistinguished(t *testing.T) {
	_, p := names(t)
	all, err := p.Zones(t.Context())
	want := []records.Zone{{ID: "1", Alias: "outer", Name: "example.com"}, {ID: "2", Alias: "inner", Name: "example.com"}, {ID: "3", Alias: "elsewhere", Name: "other.org"}}
	if err != nil || !slices.Equal(all, want) {
		t.Fatalf("the zones are %+v, %v", all, err)
	}
	for spec, want := range map[string]string{"*/2": "2", "*/inner": "2", "*/1": "1", "example.com/outer": "1", "example.com": ""} {
		z, err := dns.ParseZone(spec)
		if err != nil {
			t.Fatal(err)
		}
		got, why := dns.PickZones(all, []dns.ZoneSpec{z, {}}).Of("api.example.com")
		if got.ID != want || (why == "") != (want != "") {
			t.Errorf("--zone=%s picks %q, %s", spec, got.ID, why)
		}
	}
}

func TestRecordsOfCloudDNS(t *testing.T) {
	c, p := names(t)
	zone := records.Zone{ID: "1", Alias: "outer", Name: "example.com"}
	putRecord(c, "1", "api.example.com.", "A", 60, "10.0.0.1")
	putRecord(c, "1", `\052.apps.example.com.`, "CNAME", 300, "Front.Example.com.")
	putRecord(c, "1", "text.example.com.", "TXT", 60, `"a \"b\""`)
	putRecord(c, "1", "two.example.com.", "TXT", 60, `"a" "b"`)
	c.Put(dnsBase+"/1/rrsets/weighted.example.com. A", gcetest.Doc{"name": "weighted.example.com.", "type": "A", "ttl": 60, "routingPolicy": gcetest.Doc{"wrr": gcetest.Doc{}}})
	want := "*.apps.example.com CNAME 300 front.example.com false\napi.example.com A 60 10.0.0.1 false\ntext.example.com TXT 60 a \"b\" false\ntwo.example.com TXT 60 \"a\" \"b\" false\nweighted.example.com A 60  true\n"
	if got := recordTexts(t, p, zone); got != want {
		t.Errorf("it holds\n%s, want\n%s", got, want)
	}
	c.Calls()
	set := records.NewSet
	changes := []records.Change{
		{Upsert: []records.Set{set("api.example.com", "A", 60, "10.0.0.2", "10.0.0.1"), set("_mark.api.example.com", "TXT", 60, `heritage="x"`)}},
		{Delete: []records.Set{set("text.example.com", "TXT", 60, `a "b"`)}, Upsert: []records.Set{set("six.example.com", "AAAA", 60, "fd00::1")}},
		{Upsert: []records.Set{set("*.apps.example.com", "CNAME", 60, "api.example.com")}},
	}
	if err := p.Apply(t.Context(), zone, changes); err != nil {
		t.Fatal(err)
	}
	if got := c.Calls(); !slices.Equal(got, []string{"POST " + dnsBase + "/1/changes"}) {
		t.Errorf("called %v", got)
	}
	want = "*.apps.example.com CNAME 60 api.example.com false\n_mark.api.example.com TXT 60 heritage=\"x\" false\napi.example.com A 60 10.0.0.1,10.0.0.2 false\nsix.example.com AAAA 60 fd00::1 false\ntwo.example.com TXT 60 \"a\" \"b\" false\nweighted.example.com A 60  true\n"
	if got := recordTexts(t, p, zone); got != want {
		t.Errorf("it holds\n%s, want\n%s", got, want)
	}
	if err := p.Apply(t.Context(), zone, []records.Change{{Upsert: []records.Set{set("six.example.com", "AAAA", 60, "fd00::2")}}}); err != nil {
		t.Errorf("a set that was just made: %v", err)
	}
}

func TestAChangeOfWhatSomebodyElseChangedIsRefused(t *testing.T) {
	c, p := names(t)
	zone := records.Zone{ID: "1", Name: "example.com"}
	putRecord(c, "1", "api.example.com.", "A", 60, "10.0.0.1")
	recordTexts(t, p, zone)
	putRecord(c, "1", "api.example.com.", "A", 60, "10.0.0.9")
	changes := []records.Change{{Upsert: []records.Set{records.NewSet("api.example.com", "A", 60, "10.0.0.2")}}, {Upsert: []records.Set{records.NewSet("b.example.com", "A", 60, "10.0.0.2")}}}
	if err := p.Apply(t.Context(), zone, changes); !fault.Is(err, fault.Conflict) {
		t.Errorf("got %v", err)
	}
	if got := recordTexts(t, p, zone); got != "api.example.com A 60 10.0.0.9 false\n" {
		t.Errorf("it holds\n%s", got)
	}
	if err := p.Apply(t.Context(), zone, changes); err != nil { // now that it has been read
		t.Error(err)
	}
}

func TestManyChangesAreAFewCalls(t *testing.T) {
	c, p := names(t)
	zone := records.Zone{ID: "1", Name: "example.com"}
	recordTexts(t, p, zone)
	var changes []records.Change
	for n := range 1001 {
		name := fmt.Sprintf("n%d.example.com", n)
		changes = append(changes, records.Change{Upsert: []records.Set{records.NewSet(name, "A", 60, "10.0.0.1")}})
	}
	changes = append(changes, records.Change{Upsert: []records.Set{records.NewSet("long.example.com", "TXT", 60, strings.Repeat("x", 99_999))}}, records.Change{Upsert: []records.Set{records.NewSet("end.example.com", "A", 60, "10.0.0.1")}})
	c.Calls()
	if err := p.Apply(t.Context(), zone, changes); err != nil {
		t.Fatal(err)
	}
	if got := len(c.Calls()); got != 4 {
		t.Errorf("%d calls, want 1000 sets, one, a long one and the last", got)
	}
}

func TestAMachineWithoutAProjectCannotPublish(t *testing.T) {
	c := gcetest.Start(t, nil)
	if _, err := openCloudDNS(t.Context(), c.Env, 0); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "get the project of this machine") {
		t.Errorf("got %v", err)
	}
}
