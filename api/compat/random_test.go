package compat

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
)

var randomDocuments = flag.Int("random", 300, "how many random documents TestRandomDocumentsSurvive makes")

// TestRandomDocumentsSurvive reads documents with random fields and values, some of them
// invalid: what is read must be written so that it reads the same again.
func TestRandomDocumentsSurvive(t *testing.T) {
	names := []string{api.KindCluster, api.KindInstanceGroup, api.KindKeyset}
	read := 0
	for seed := range *randomDocuments {
		r := rand.New(rand.NewPCG(uint64(seed), 0))
		kind, version := kinds()[names[r.IntN(len(names))]], []string{api.V1Alpha2, api.V1Alpha3}[r.IntN(2)]
		spec := randomValue(r, kind.schemas[version].fields["spec"], r.IntN(10) == 0)
		doc := asJSON(t, map[string]any{"apiVersion": api.Group + "/" + version, "kind": kind.name, "spec": spec})
		objects, _, err := Decode(doc, Options{})
		if err != nil {
			continue
		}
		read++
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Logf("%s", doc)
			survives(t, objects[0])
		})
	}
	if read < *randomDocuments/4 {
		t.Errorf("only %d of %d documents are right; the test says little", read, *randomDocuments)
	}
}

// survives writes an object in each version, and in the old one also via the new one.
func survives(t *testing.T, o api.Object) {
	roundTrip(t, o, api.V1Alpha2)
	roundTrip(t, o, api.V1Alpha3)
	newer, _, err := Decode(mustEncode(t, api.V1Alpha3, o), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, got := string(mustEncode(t, api.V1Alpha2, o)), string(mustEncode(t, api.V1Alpha2, newer...))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("by way of v1alpha3 (+) differs:\n%s", diff)
	}
}

// randomValue returns a value that a schema allows; a wild one may also be invalid.
func randomValue(r *rand.Rand, s *schema, wild bool) any {
	if s.retired != nil || wild && r.IntN(40) == 0 {
		return pick(r, nil, true, 7, -1.5, "text", []any{}, map[string]any{})
	}
	switch s.sort {
	case sortObject:
		return randomObject(r, s, wild)
	case sortMap:
		out := map[string]any{}
		for range r.IntN(3) {
			out[pick(r, "a", "", "yes", "1", "master", "control-plane", "example.com/a").(string)] = randomValue(r, s.elem, wild)
		}
		return out
	case sortList:
		out := []any{}
		for range r.IntN(3) {
			out = append(out, randomValue(r, s.elem, wild))
		}
		return out
	case sortBool:
		return r.IntN(2) == 0
	case sortInt:
		return pick(r, 0, 1, 7, 100, json.Number("1e1"), json.Number("3.0"))
	case sortIntOrString:
		return pick(r, 0, 3, "25%", "", "3")
	case sortQuantity:
		return pick(r, "100m", "1Gi", "0", 3, 0.5, "1e3", "0.1", "100000000000000000000", "-1")
	case sortDuration:
		return pick(r, "1m", "0", "1h30m", "-1s", "100000h", "0.5s", "1ns")
	case sortTime:
		return pick(r, "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678+02:00")
	case sortBytes:
		return pick(r, "", "AQI=")
	}
	if len(s.enum) > 0 {
		return s.enum[r.IntN(len(s.enum))]
	}
	if s.check != nil {
		return pick(r, "a=b", "=", "a=", "a=b=c")
	}
	return pick(r, "text", "", "a,b", ",", "yes", "1", "1e3", "null", "~", "- a", "a: b", "#", "line\nline\n", " a ", "😀", "\t", "2026-01-02", "{}", "*a", "!a", "\u2028", "0x10", "=")
}

// randomObject sets some of an object's fields: of one cloud at most, and few that are retired.
func randomObject(r *rand.Rand, s *schema, wild bool) any {
	out := map[string]any{}
	cloud := pick(r, "aws", "gce", "openstack", "azure", "hetzner", "digitalocean").(string)
	for _, name := range slices.Sorted(maps.Keys(s.fields)) {
		f := s.fields[name]
		otherCloud := f.cloud != "" && f.cloud != api.CloudProviderID(cloud)
		switch {
		case name == "cloudProvider" && f.sort == sortString:
			out[name] = cloud
		case name == "cloudProvider":
			member := memberOf(api.CloudProviderID(cloud))
			out[name] = map[string]any{member: randomValue(r, f.fields[member], wild)}
		case name == "cloudConfig" && len(f.fields) > 1 && !wild:
			// Its fields belong to clouds that are not known below.
		case (otherCloud || f.retired != nil) && !(wild && r.IntN(100) == 0):
		case r.IntN(6) == 0:
			out[name] = randomValue(r, f, wild)
		}
	}
	return out
}

// pick returns one of the values.
func pick(r *rand.Rand, values ...any) any { return values[r.IntN(len(values))] }
