package ground

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/platform/local/site"
)

// The settings from before the first site are kept until the last is removed,
// whichever root each is in.
func TestTheHostIsRememberedForAllRoots(t *testing.T) {
	m := HostState{Run: t.TempDir() + "/run", Now: time.Now, IsAlive: func(s site.Site) bool {
		_, err := os.Stat(s.Dir())
		return err == nil
	}}
	one, two := site.Site{Root: t.TempDir(), Cluster: "x"}, site.Site{Root: t.TempDir(), Cluster: "x"}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func(want ...site.Site) {
		t.Helper()
		var r record
		if there, err := site.ReadJSON(m.file(), &r); err != nil || !there {
			t.Fatalf("there is a record: %t, %v", there, err)
		}
		if d := cmp.Diff(want, r.Sites); d != "" || r.Sysctls["first"] != "yes" {
			t.Errorf("recorded are %v%s", r.Sysctls, d)
		}
	}
	do(site.WriteJSON(m.file(), record{Sysctls: map[string]string{"first": "yes"}}))
	for _, s := range []site.Site{one, two} {
		do(os.Mkdir(s.Dir(), 0o700))
		do(m.Remember(t.Context(), s))
		do(m.Remember(t.Context(), s)) // as an update does
	}
	read(one, two)
	do(m.Restore(t.Context(), one))
	read(two)
	do(m.Restore(t.Context(), one)) // as an interrupted deletion that is repeated does
	read(two)
	do(m.Restore(t.Context(), two))
	if _, err := os.Stat(m.Run); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the record is left: %v", err)
	}

	// A site whose folder was removed by hand is not waited for.
	do(site.WriteJSON(m.file(), record{Sysctls: map[string]string{}, Sites: []site.Site{one, two}}))
	do(os.RemoveAll(two.Dir()))
	do(m.Restore(t.Context(), one))
	if _, err := os.Stat(m.Run); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the record is left for a site without a folder: %v", err)
	}
}
