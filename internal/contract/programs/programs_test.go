package programs_test

import (
	"strings"
	"testing"

	"kops.local/kops/internal/contract/programs"
)

func TestKeys(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	f := programs.File{Path: "linux/amd64/nodeup.gz", SHA256: sum}
	if got, want := f.Key(), "programs/"+sum+"/nodeup.gz"; got != want {
		t.Errorf("the key is %s, and not %s", got, want)
	}
	if s, base, ok := programs.ParseKey(f.Key()); !ok || s != sum || base != "nodeup.gz" {
		t.Errorf("got %q, %q, %v", s, base, ok)
	}
	for _, bad := range []string{"", "programs/", "programs/" + sum, "programs/" + sum + "/", "programs/" + sum + "/..", "programs/" + sum + "/a/b", "programs/" + strings.ToUpper(sum) + "/a",
		"programs/" + sum[1:] + "/a", "pki/private/ca/keyset.yaml", "programs/../" + sum + "/a", "/programs/" + sum + "/a"} {
		if _, _, ok := programs.ParseKey(bad); ok {
			t.Errorf("%q is taken for a key", bad)
		}
	}
}
