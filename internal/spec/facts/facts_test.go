package facts

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKeysMayBePatterns(t *testing.T) {
	m := map[string]int{"*": 1, "t2.*": 2, "*g.*": 3, "t2.micro": 4, "a.b": 5}
	for name, want := range map[string]int{
		"m5.large": 1, "t2.large": 2, "m6g.large": 3, "t2.micro": 4, "a.b": 5, "axb": 1, "owner/image/x": 1, "": 1,
		"t2.g.x": 3, // of two patterns of equal length, the first in order wins
	} {
		if got, ok := Lookup(m, name); !ok || got != want {
			t.Errorf("%q: got %d, %v, want %d", name, got, ok, want)
		}
	}
	delete(m, "*")
	if got, ok := Lookup(m, "m5.large"); ok {
		t.Errorf("got %d", got)
	}
}

func TestGoldenFactsSurviveMarshalling(t *testing.T) {
	data, err := os.ReadFile("../../../testdata/facts/goldens.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	again, err := f.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	g, err := Parse(again)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(f, g); d != "" {
		t.Error(d)
	}
	for name, arch := range map[string]string{"t3.medium": ArchX86, "t2.medium": ArchI386, "t4g.medium": ArchARM, "g4dn.xlarge": ArchX86,
		"g5.xlarge": ArchX86, "c7gn.large": ArchARM, "im4gn.large": ArchARM, "is4gen.large": ArchARM, "m6gd.large": ArchARM, "m6gd.metal": ArchARM} {
		if m, ok := f.Of("aws").MachineType(name); !ok || !m.Supports(arch) {
			t.Errorf("%s does not run %s: %+v", name, arch, m)
		}
	}
	if m, _ := f.Of("aws").MachineType("m3.medium"); len(m.EphemeralDisks) != 1 || !m.OfferedIn(f.Of("aws").Zones) {
		t.Errorf("m3.medium is %+v", m)
	}
	if i, _ := f.Of("aws").Image("099720109477/ubuntu/images/hvm-ssd-gp3/ubuntu-noble"); i.ID != "ami-12345678" {
		t.Errorf("the image is %+v", i)
	}
}

func TestUnknownFactsAreRefused(t *testing.T) {
	if _, err := Parse([]byte("clouds: {aws: {regoin: x}}")); err == nil || !strings.Contains(err.Error(), "regoin") {
		t.Errorf("got %v", err)
	}
}

func TestOfferedIn(t *testing.T) {
	m := MachineType{Zones: []string{"a", "b"}}
	for _, tc := range []struct {
		zones []string
		want  bool
	}{{nil, true}, {[]string{"a"}, true}, {[]string{"a", "b"}, true}, {[]string{"a", "c"}, false}} {
		if got := m.OfferedIn(tc.zones); got != tc.want {
			t.Errorf("%v: got %v", tc.zones, got)
		}
	}
}
