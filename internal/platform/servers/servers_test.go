package servers

import (
	"testing"

	"kops.local/kops/api"
)

func TestMachinesAreMarkedWhileTheyAreNotAsWanted(t *testing.T) {
	one, two := Digest("small", "script"), Digest("smalls", "cript")
	if one == two || one != Digest("small", "script") || len(one) > 63 {
		t.Errorf("digests %s and %s", one, two)
	}
	l := Labels("nodes", one)
	if l[api.LabelInstanceGroup] != "nodes" || Outdated(l) {
		t.Errorf("of a new machine: %v", l)
	}
	for _, c := range []struct {
		digest string
		want   bool
	}{{one, false}, {two, true}, {two, true}, {one, false}} {
		if l = Mark(l, c.digest); Outdated(l) != c.want || l[DigestLabel] != one {
			t.Errorf("wanted is %s: %v", c.digest, l)
		}
	}
	if !Outdated(Mark(nil, one)) {
		t.Error("of a machine without labels nobody knows what it was made of")
	}
}
