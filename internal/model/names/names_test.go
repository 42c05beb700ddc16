package names_test

import (
	"math/rand"
	"strings"
	"testing"

	"kops.local/kops/internal/model/names"
)

// The expected names are those in clusters of kOps.
func TestHashedNamesMatchKOps(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit int
		want  string
	}{
		{"api-minimal-example-com", 32, "api-minimal-example-com-gecgf7"},
		{"tcp-minimal-example-com", 32, "tcp-minimal-example-com-5905t8"},
		{"kops-controller-minimal-example-com", 32, "kops-controller-minimal-e-uvauf3"},
		{"api-minimal-ipv6-example-com", 32, "api-minimal-ipv6-example--jhj9te"},
		{"bastion-private-shared-subnet-example-com", 32, "bastion-private-shared-su-5ol32q"},
	} {
		if got := names.Hashed(c.name, c.limit); got != c.want {
			t.Errorf("Hashed(%q, %d) = %q, want %q", c.name, c.limit, got, c.want)
		}
	}
}

func TestShortNamesFitAndStayApart(t *testing.T) {
	const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789-."
	random := rand.New(rand.NewSource(1))
	seen := map[string]string{}
	for range 2000 {
		b := make([]byte, 1+random.Intn(120))
		for i := range b {
			b[i] = alphabet[random.Intn(len(alphabet))]
		}
		name := string(b)
		for _, limit := range []int{32, 40, 64, 75} {
			short, always := names.Short(name, limit), names.Hashed(name, limit)
			if len(short) > limit || len(always) > limit {
				t.Fatalf("%q is shortened to %q and %q, longer than %d", name, short, always, limit)
			}
			if len(name) <= limit && short != name {
				t.Fatalf("%q fits into %d, and is shortened to %q", name, limit, short)
			}
			if !strings.HasPrefix(name, short[:min(len(name), limit-names.Tail)]) {
				t.Fatalf("%q does not start as %q does", short, name)
			}
			if other, taken := seen[always]; taken && other != name {
				t.Fatalf("%q and %q are both %q", name, other, always)
			}
			seen[always] = name
		}
	}
}

func TestDashed(t *testing.T) {
	if got := names.Dashed("a-b.example.com"); got != "a-b-example-com" {
		t.Errorf("Dashed = %q", got)
	}
}
