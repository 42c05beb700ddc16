package kinds

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
)

// A network that the host rejects leaves no record: the host may be changed before
// another cluster is created, and its settings at that time count.
func TestARefusedNetworkIsNotRecorded(t *testing.T) {
	c := &Client{Root: t.TempDir(), Run: t.TempDir() + "/run", Now: time.Now}
	err := createNetwork(t.Context(), c, &Network{Cluster: "x", CIDR: "127.0.0.0/24"}) // the loopback interface has it
	if !fault.Is(err, fault.Permanent) {
		t.Fatalf("the error is %v", err)
	}
	if _, err := os.Stat(filepath.Join(c.Run, "host.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a record: %v", err)
	}
}
