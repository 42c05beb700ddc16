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

// What the host was like before the first site is remembered until the last has gone,
// whichever folder each is in.
func TestTheHostIsRememberedForAllRoots(t *testing.T) {
	m := Memory{Run: t.TempDir() + "/run", Now: time.Now, Lives: func(s site.Site) bool {
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
		do(m.Remember(t.Context(), s)) // an update does it again
	}
	read(one, two)
	do(m.Restore(t.Context(), one))
	read(two)
	do(m.Restore(t.Context(), one)) // a deletion that was cut short does it again
	read(two)
	do(m.Restore(t.Context(), two))
	if _, err := os.Stat(m.Run); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the record is left: %v", err)
	}

	// The folder of a site may be removed by hand: it is not waited for.
	do(site.WriteJSON(m.file(), record{Sysctls: map[string]string{}, Sites: []site.Site{one, two}}))
	do(os.RemoveAll(two.Dir()))
	do(m.Restore(t.Context(), one))
	if _, err := os.Stat(m.Run); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the record is left for a site without a folder: %v", err)
	}
}
