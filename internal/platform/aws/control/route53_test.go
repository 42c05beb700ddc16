package control

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	"github.com/aws/aws-sdk-go-v2/service/route53/types"

	"kops.local/kops/internal/node/dns"
	"kops.local/kops/internal/node/dns/records"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/platform/aws/node/ec2/ec2test"
)

// hostedZone creates a zone, and returns it as dns-controller lists it.
func hostedZone(t *testing.T, api *route53.Client, p records.Provider, name string) records.Zone {
	t.Helper()
	made, err := api.CreateHostedZone(t.Context(), &route53.CreateHostedZoneInput{Name: aws.String(name + "."), CallerReference: aws.String(t.Name() + name)})
	if err != nil {
		t.Fatal(err)
	}
	all, err := p.Zones(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := records.Zone{ID: strings.TrimPrefix(*made.HostedZone.Id, zonePrefix), Name: name}
	if !slices.Contains(all, want) {
		t.Fatalf("got %v, want %v among them", all, want)
	}
	return want
}

// recordTexts returns the record sets except the zone's own and the marks, as text.
func recordTexts(t *testing.T, p records.Provider, zone records.Zone) string {
	t.Helper()
	all, err := p.Records(t.Context(), zone, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range all {
		if s.Type != "NS" && s.Type != "SOA" && s.Type != records.TXT {
			out = append(out, fmt.Sprintf("%s %s %d %s %v", s.Name, s.Type, s.TTL, strings.Join(s.Values, ","), s.Opaque))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func TestRoute53(t *testing.T) {
	server := awstest.Moto(t)
	for _, v := range server.Environ() {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	api := route53.NewFromConfig(server.AWS())
	p, err := openRoute53(t.Context(), os.Getenv, 900)
	if err != nil {
		t.Fatal(err)
	}
	zone := hostedZone(t, api, p, "example.com")
	foreign := []types.Change{
		{Action: types.ChangeActionUpsert, ResourceRecordSet: toRecordSet(records.NewSet("mail.example.com", records.A, 300, "7.7.7.7"))},
		{Action: types.ChangeActionUpsert, ResourceRecordSet: &types.ResourceRecordSet{Name: aws.String("lb.example.com"), Type: types.RRTypeA,
			AliasTarget: &types.AliasTarget{DNSName: aws.String("api-1.elb.amazonaws.com"), HostedZoneId: aws.String("Z2P70J7EXAMPLE")}}},
	}
	if _, err := api.ChangeResourceRecordSets(t.Context(), &route53.ChangeResourceRecordSetsInput{HostedZoneId: &zone.ID, ChangeBatch: &types.ChangeBatch{Changes: foreign}}); err != nil {
		t.Fatal(err)
	}
	const kept = "lb.example.com A 0  true\nmail.example.com A 300 7.7.7.7 false"
	owner := dns.Owner{Cluster: "k.example.com"}
	// Each step reads the zone again, as a restarted program would.
	for _, step := range []struct {
		name string
		want []records.Set
		held string
	}{
		{"published", []records.Set{records.NewSet("a.internal.k.example.com", records.A, 60, "10.0.0.2", "10.0.0.1"), records.NewSet("*.shop.example.com", records.CNAME, 60, "lb.example.net")},
			"*.shop.example.com CNAME 60 lb.example.net false\na.internal.k.example.com A 60 10.0.0.1,10.0.0.2 false\n" + kept},
		{"the type changes", []records.Set{records.NewSet("a.internal.k.example.com", records.A, 60, "10.0.0.3"), records.NewSet("*.shop.example.com", records.AAAA, 60, "fd00::1")},
			"*.shop.example.com AAAA 60 fd00::1 false\na.internal.k.example.com A 60 10.0.0.3 false\n" + kept},
		{"an alias stays", []records.Set{records.NewSet("lb.example.com", records.A, 60, "10.0.0.3")}, kept},
		{"withdrawn", nil, kept},
	} {
		for i := range 2 {
			have, err := p.Records(t.Context(), zone, nil)
			if err != nil {
				t.Fatal(err)
			}
			plan := owner.Plan(zone, step.want, dns.NewContent(have))
			if i == 1 && len(plan.Changes) > 0 {
				t.Errorf("%s: it would be changed again: %+v", step.name, plan.Changes)
			}
			if err := p.Apply(t.Context(), zone, plan.Changes); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		if got := recordTexts(t, p, zone); got != step.held {
			t.Errorf("%s: got\n%s\nwant\n%s", step.name, got, step.held)
		}
	}
	left, err := p.Records(t.Context(), zone, nil)
	if err != nil || slices.ContainsFunc(left, func(s records.Set) bool { return s.Type == records.TXT }) {
		t.Errorf("marks are left: %v %v", left, err)
	}
	t.Run("more than a page and a batch", func(t *testing.T) {
		zone := hostedZone(t, api, p, "many.example.com")
		var want []records.Set
		for i := range 500 {
			want = append(want, records.NewSet(fmt.Sprintf("n%03d.many.example.com", i), records.A, 60, "10.0.0.1"))
		}
		plan := owner.Plan(zone, want, dns.Content{})
		if n := len((&zones{batch: 900}).batches(plan.Changes)); n != 3 { // 500 sets and marks, each of which counts twice
			t.Errorf("%d batches", n)
		}
		if err := p.Apply(t.Context(), zone, plan.Changes); err != nil {
			t.Fatal(err)
		}
		have, err := p.Records(t.Context(), zone, nil)
		if err != nil || len(have) < 1000 {
			t.Fatalf("%d records: %v", len(have), err)
		}
		if plan := owner.Plan(zone, want, dns.NewContent(have)); len(plan.Changes) > 0 {
			t.Errorf("%d names would be changed again", len(plan.Changes))
		}
	})
}

// Route 53 counts values and their characters, twice in an UPSERT, and rejects larger batches.
func TestBatchesOfRoute53(t *testing.T) {
	set := func(values int) records.Change {
		s := records.Set{Key: records.Key{Name: "a.example.com", Type: records.A}, TTL: 60}
		for i := range values {
			s.Values = append(s.Values, fmt.Sprintf("10.0.%d.%d", i/250, i%250))
		}
		return records.Change{Upsert: []records.Set{s}}
	}
	z := &zones{batch: 10}
	var got []int
	for _, b := range z.batches([]records.Change{set(2), set(3), set(1), set(400), set(1)}) {
		got = append(got, len(b))
	}
	if !slices.Equal(got, []int{2, 1, 1, 1}) {
		t.Errorf("changes in batches: %v", got)
	}
	z.batch = 1_000_000
	if got := z.batches([]records.Change{set(400), set(400), set(400), set(400), set(400)}); len(got) != 2 {
		t.Errorf("%d batches of %d characters", len(got), maxCharacters)
	}
}

// A pod with its own role assumes it in the region of its machine.
func TestAPodWithARoleOfItsOwnKnowsItsRegion(t *testing.T) {
	server := awstest.Moto(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
		"AWS_EC2_METADATA_SERVICE_ENDPOINT": ec2test.Serve(t, map[string]string{"/latest/dynamic/instance-identity/document": `{"region":"eu-west-1"}`}), "AWS_ENDPOINT_URL_ROUTE_53": server.URL,
		"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/dns.c", "AWS_WEB_IDENTITY_TOKEN_FILE": token} {
		t.Setenv(name, value)
	}
	p, err := openRoute53(t.Context(), os.Getenv, 900)
	if err != nil {
		t.Fatal(err)
	}
	// The region's service is not reachable here, and the error names it.
	if _, err := p.Zones(t.Context()); err == nil || !strings.Contains(err.Error(), "sts.eu-west-1.amazonaws.com") {
		t.Errorf("the role is assumed elsewhere: %v", err)
	}
}
