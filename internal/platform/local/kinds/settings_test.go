package kinds

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/site"
)

// What the host was like before the first cluster is remembered until the last
// has gone, whichever folder each is in.
func TestTheHostIsRememberedForAllRoots(t *testing.T) {
	a, b := &Client{Root: t.TempDir(), Now: time.Now}, &Client{Root: t.TempDir(), Now: time.Now}
	a.Run = t.TempDir() + "/run"
	b.Run = a.Run
	one, two := site.Site{Root: a.Root, Cluster: "x"}, site.Site{Root: b.Root, Cluster: "x"}
	read := func(want ...site.Site) {
		t.Helper()
		var r record
		if there, err := site.ReadJSON(a.recordFile(), &r); err != nil || !there {
			t.Fatalf("there is a record: %t, %v", there, err)
		}
		if d := cmp.Diff(want, r.Sites); d != "" || r.Sysctls["first"] != "yes" {
			t.Errorf("recorded are %v%s", r.Sysctls, d)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(site.WriteJSON(a.recordFile(), record{Sysctls: map[string]string{"first": "yes"}}))
	for c, s := range map[*Client]site.Site{a: one, b: two} {
		do(site.WriteJSON(keeper.NetworkFile(s), keeper.Network{CIDR: "10.199.8.0/24"}))
		do(c.remember(t.Context(), s))
		do(c.remember(t.Context(), s)) // an update does it again
	}
	var r record
	if _, err := site.ReadJSON(a.recordFile(), &r); err != nil || len(r.Sites) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	do(a.restore(t.Context(), one))
	read(two)
	do(a.restore(t.Context(), one)) // a deletion that was cut short does it again
	read(two)
	do(b.restore(t.Context(), two))
	if _, err := os.Stat(a.Run); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the record is left: %v", err)
	}

	// The folder of a cluster may be removed by hand: it is not waited for.
	do(site.WriteJSON(a.recordFile(), record{Sysctls: map[string]string{}, Sites: []site.Site{one, two}}))
	do(os.RemoveAll(two.Dir()))
	do(a.restore(t.Context(), one))
	if _, err := os.Stat(a.Run); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the record is left for a cluster without a folder: %v", err)
	}
}

// A network that the host refuses leaves no record: the host may be changed before
// another cluster comes, and what it was like then counts.
func TestARefusedNetworkIsNotRecorded(t *testing.T) {
	c := &Client{Root: t.TempDir(), Run: t.TempDir() + "/run", Now: time.Now}
	err := createNetwork(t.Context(), c, &Network{Cluster: "x", CIDR: "127.0.0.0/24"}) // the loopback interface has it
	if !fault.Is(err, fault.Permanent) {
		t.Fatalf("the error is %v", err)
	}
	if _, err := os.Stat(c.recordFile()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a record: %v", err)
	}
}
