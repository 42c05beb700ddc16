package kinds

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/route53"
	dnstypes "github.com/aws/aws-sdk-go-v2/service/route53/types"

	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/test/kindtest"
)

// testZone creates a zone; a private one is associated with vpc.
func testZone(t *testing.T, c *Client, name, vpc string) (id string) {
	t.Helper()
	in := &route53.CreateHostedZoneInput{Name: &name, CallerReference: new(t.Name() + name)}
	if vpc != "" {
		in.VPC = &dnstypes.VPC{VPCId: &vpc, VPCRegion: dnstypes.VPCRegion(c.Region)}
		in.HostedZoneConfig = &dnstypes.HostedZoneConfig{PrivateZone: true}
	}
	out, err := c.Route53.CreateHostedZone(t.Context(), in)
	for try := 0; try < 5 && fault.Is(err, fault.Lost); try++ { // from an overloaded emulator
		time.Sleep(time.Second)
		out, err = c.Route53.CreateHostedZone(t.Context(), in)
	}
	if err != nil {
		t.Fatal(err)
	}
	return zonePrefix + lastSegment(*out.HostedZone.Id)
}

func liveRecord(t *testing.T, c *Client) {
	zone := testZone(t, c, "example.com.", "")
	kindtest.Run(t, &DNSRecords, c, kindtest.Life[DNSRecord]{
		Cluster: testCluster,
		Want:    DNSRecord{ZoneID: zone, Name: "api.internal." + testCluster, Type: "A", TTL: 60, Records: resource.Lits("10.0.0.1")},
		Changes: []kindtest.Change[DNSRecord]{
			{Name: "addresses", Do: func(r *DNSRecord) { r.Records = resource.Lits("10.0.0.3", "10.0.0.2") }},
			{Name: "ttl", Do: func(r *DNSRecord) { r.TTL = 30 }},
			{Name: "alias", Do: func(r *DNSRecord) {
				r.TTL, r.Records = 0, nil
				r.Alias = &DNSAlias{Name: lit("api-1.elb.amazonaws.com"), ZoneID: lit("Z2P70J7EXAMPLE")}
			}},
		},
	})
	t.Run("a record that has changed since is deleted all the same", func(t *testing.T) {
		old := DNSRecord{ZoneID: zone, Name: "bastion." + testCluster, Type: "A", TTL: 60, Records: resource.Lits("10.0.0.1")}
		build(t, c, &DNSRecords, old)
		changed := old
		changed.TTL = 10
		if err := upsertRecord(t.Context(), c, &changed); err != nil {
			t.Fatal(err)
		}
		old.TTL = 99
		if err := deleteRecord(t.Context(), c, &old); err != nil {
			t.Fatal(err)
		}
		if list := observed(t, c, &DNSRecords, resource.Scope{Cluster: testCluster, Names: []string{DNSRecords.Key(&old)}}); len(list) > 0 {
			t.Errorf("it is still there: %+v", list[0])
		}
	})
	t.Run("a deletion finds what dns-controller has marked", func(t *testing.T) {
		cluster := "marked.example.com"
		for _, r := range []DNSRecord{
			{Name: "shop." + cluster, Type: "A", Records: resource.Lits("10.0.0.1")},
			{Name: hostnames.Mark("shop."+cluster, "A"), Type: "TXT", Records: resource.Lits(`"` + hostnames.MarkText(cluster) + `"`)},
			{Name: "own." + cluster, Type: "A", Records: resource.Lits("10.0.0.1")},
			{Name: hostnames.Mark("own."+cluster, "A"), Type: "TXT", Records: resource.Lits(`"` + hostnames.MarkText("x"+cluster) + `"`)},
		} {
			r.ZoneID, r.TTL = zone, 60
			build(t, c, &DNSRecords, r)
		}
		var got []string
		for _, r := range observed(t, c, &DNSRecords, resource.Scope{Cluster: cluster, All: true}) {
			got = append(got, r.Name)
		}
		slices.Sort(got)
		if want := []string{"_kops-a.shop." + cluster, "shop." + cluster}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	t.Run("names that stand far apart are all found", func(t *testing.T) { recordsFarApart(t, c) })
}

// recordsFarApart fills a zone with more records than one response contains.
func recordsFarApart(t *testing.T, c *Client) {
	zone := testZone(t, c, "far.example.com.", "")
	var keys []string
	var changes []dnstypes.Change
	add := func(name string) {
		changes = append(changes, dnstypes.Change{Action: dnstypes.ChangeActionUpsert, ResourceRecordSet: &dnstypes.ResourceRecordSet{
			Name: &name, Type: dnstypes.RRTypeA, TTL: new(int64(60)), ResourceRecords: []dnstypes.ResourceRecord{{Value: new("10.0.0.1")}}}})
	}
	for i := range 250 {
		add(fmt.Sprintf("m%03d.k.far.example.com", i))
	}
	for _, name := range []string{"a.k.far.example.com", "m001.k.far.example.com", "m240.k.far.example.com", "z.k.far.example.com", "other.far.example.com"} {
		add(name)
		keys = append(keys, recordKey{zone, name, "A"}.String())
	}
	_, err := c.Route53.ChangeResourceRecordSets(t.Context(), &route53.ChangeResourceRecordSetsInput{
		HostedZoneId: &zone, ChangeBatch: &dnstypes.ChangeBatch{Changes: changes}})
	if err != nil {
		t.Fatal(err)
	}
	keys = append(keys, recordKey{zone, "none.k.far.example.com", "A"}.String())
	if list := observed(t, c, &DNSRecords, resource.Scope{Cluster: "k.far.example.com", Names: keys}); len(list) != 5 {
		t.Errorf("%d records found, want 5", len(list))
	}
}

func liveAlias(t *testing.T, c *Client) {
	zone := testZone(t, c, "alias.example.com.", "")
	cluster := "k.alias.example.com"
	kindtest.Run(t, &DNSRecords, c, kindtest.Life[DNSRecord]{
		Cluster: cluster,
		Want: DNSRecord{ZoneID: zone, Name: "api." + cluster, Type: "AAAA",
			Alias: &DNSAlias{Name: lit("api-1.elb.amazonaws.com"), ZoneID: lit("Z2P70J7EXAMPLE")}},
		Changes: []kindtest.Change[DNSRecord]{
			{Name: "other target", Do: func(r *DNSRecord) { r.Alias.Name = lit("api-2.elb.amazonaws.com") }},
			{Name: "no alias", Do: func(r *DNSRecord) {
				r.Alias, r.TTL, r.Records = nil, 60, resource.Lits("fd00:dead:add::")
			}},
		},
	})
}

func livePlaceholder(t *testing.T, c *Client) {
	zone := testZone(t, c, "holder.example.com.", "")
	cluster := "k.holder.example.com"
	want := DNSPlaceholder{ZoneID: zone, Name: "kops-controller.internal." + cluster, Type: "A", TTL: 60, Records: []string{"203.0.113.123"}}
	kindtest.Run(t, &DNSPlaceholders, c, kindtest.Life[DNSPlaceholder]{Cluster: cluster, Want: want, OnlyNamed: true})
	t.Run("what a controller writes stays, and goes with the cluster", func(t *testing.T) {
		build(t, c, &DNSPlaceholders, want)
		real := want.record()
		real.Records = resource.Lits("10.0.0.1")
		if err := upsertRecord(t.Context(), c, real); err != nil {
			t.Fatal(err)
		}
		list := observed(t, c, &DNSPlaceholders, resource.Scope{Cluster: cluster, Names: []string{DNSPlaceholders.Key(&want)}})
		if len(list) != 1 {
			t.Fatalf("got %+v", list)
		}
		if d := DNSPlaceholders.Erase().Schema().Diff(&want, list[0]); len(d) > 0 {
			t.Errorf("it would be changed: %+v", d)
		}
		if all := observed(t, c, &DNSRecords, resource.Scope{Cluster: cluster, All: true}); len(all) != 1 {
			t.Errorf("a deletion finds %d records, want 1", len(all))
		}
	})
}

func liveAssociation(t *testing.T, c *Client) {
	first := build(t, c, &VPCs, VPC{CIDR: "10.70.0.0/16", Tags: OwnedTags("x."+testCluster, "other")})
	own := build(t, c, &VPCs, VPC{CIDR: "10.71.0.0/16", Tags: OwnedTags(testCluster, "dns")})
	zone := testZone(t, c, "internal.example.com.", first.ID)
	want := ZoneAssociation{ZoneID: zone, VPC: lit(own.ID)}
	kindtest.Run(t, &ZoneAssociations, c, kindtest.Life[ZoneAssociation]{Cluster: testCluster, Want: want})
	t.Run("others' VPCs are not the cluster's, and the last association stays", func(t *testing.T) {
		build(t, c, &ZoneAssociations, want)
		list := observed(t, c, &ZoneAssociations, resource.Scope{Cluster: testCluster, Names: []string{ZoneAssociations.Key(&want)}})
		if len(list) != 1 || list[0].VPC.String() != own.ID {
			t.Fatalf("got %+v", list)
		}
		for _, vpc := range []string{own.ID, first.ID} {
			if err := deleteAssociation(t.Context(), c, &ZoneAssociation{ZoneID: zone, VPC: lit(vpc)}); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("a shared VPC is known by its identifier", func(t *testing.T) {
		shared := ZoneAssociation{ZoneID: zone, VPC: lit(first.ID)}
		list := observed(t, c, &ZoneAssociations, resource.Scope{Cluster: testCluster, Names: []string{ZoneAssociations.Key(&shared)}})
		if len(list) != 1 {
			t.Errorf("got %+v", list)
		}
	})
}

func TestNamesAreOrderedAsRoute53ListsThem(t *testing.T) {
	want := strings.Fields("example.com k.example.com api.k.example.com internal.api.k.example.com bastion.k.example.com z.example.com example.org")
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, compareNames)
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestRecordKeysHoldZonesWithSlashes(t *testing.T) {
	k := recordKey{"/hostedzone/Z1", "api.k.example.com", "AAAA"}
	if got := parseRecordKey(k.String()); got != k {
		t.Errorf("%s is read as %+v", k, got)
	}
}

func TestObservedNamesAreWrittenAsKopsWritesThem(t *testing.T) {
	for in, want := range map[string]string{"API.k.Example.com.": "api.k.example.com", `\052.apps.k.example.com.`: "*.apps.k.example.com"} {
		if got := dnsName(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
