package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/local/site"
)

func TestDiskSize(t *testing.T) {
	for _, c := range []struct {
		name          string
		wished, least int
		left          int64 // GiB
		want          int   // 0: an error
	}{
		{"an eighth, as a power of two", 0, 0, 51, 4},
		{"the next power", 0, 0, 64, 8},
		{"no more than a machine needs", 0, 0, 5000, 16},
		{"no less either", 0, 0, 3, 2},
		{"all that is left", 0, 0, 2, 2},
		{"too little for any machine", 0, 0, 1, 0},
		{"as wished", 40, 0, 41, 40},
		{"less than the host would say", 1, 0, 5000, 1},
		{"all that is left, as wished", 41, 0, 41, 41},
		{"more than is left", 42, 0, 41, 0},
		{"the least that a machine needs", 0, 4, 30, 4},
		{"more than the least", 0, 4, 64, 8},
		{"the least does not fit", 0, 4, 3, 0},
		{"as wished, whatever the least", 2, 4, 30, 2},
		{"others took what was promised", 0, 0, -3, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := diskSize(c.wished, c.least, c.left*gib)
			if got != c.want || (err != nil) != (c.want == 0) {
				t.Errorf("%d GiB, %v", got, err)
			}
		})
	}
	_, err := diskSize(42, 0, 41*gib+gib/2)
	if want := "a disk of 42 GiB does not fit on this host: 41.5 GiB are free, not counting 4 GiB for the host itself and what is reserved for other machines"; err == nil || err.Error() != want {
		t.Errorf("%v, not %s", err, want)
	}
	if got := fault.Remedy(err); !strings.Contains(got, "spec.rootVolumeSize") || !strings.Contains(got, "kops edit instancegroup") || !fault.Is(err, fault.Quota) {
		t.Errorf("the remedy is %q, the class %s", got, fault.Of(err))
	}
}

// TestDiskLeft: space that is reserved for machines of any cluster and not used yet is
// not reserved again.
func TestDiskLeft(t *testing.T) {
	root := t.TempDir()
	left := func() int64 {
		t.Helper()
		n, err := AvailableDisk(root)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := left()
	for _, cluster := range []string{"a", "b"} {
		file := site.Site{Root: root, Cluster: cluster}.Path(site.Machines, "m", diskFile)
		if err := site.Write(file, make([]byte, 64<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, 10*gib); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "b", site.Machines, "of-an-earlier-kops"), 0o700); err != nil {
		t.Fatal(err)
	}
	const others = gib // other programs write and remove files meanwhile
	if took := before - left(); took < 20*gib-others || took > 20*gib+others {
		t.Errorf("two disks of 10 GiB took %d MiB", took>>20)
	}
}

// TestADiskIsRead: files that a dead machine wrote to its disk are read without a mount.
func TestADiskIsRead(t *testing.T) {
	for _, program := range []string{"mkfs.ext4", "debugfs"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
		}
	}
	h := Host{Site: site.Site{Root: t.TempDir(), Cluster: "c"}}
	dir := h.Path(site.Machines, "m")
	if err := site.Write(filepath.Join(dir, "on-disk", "var/log/kops-boot.json"), []byte(`{"run": 2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.makeDisk(t.Context(), dir, 2, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := h.BootReport(t.Context(), "m"); err != nil || got != nil {
		t.Errorf("of an empty disk: %q, %v", got, err)
	}
	out, err := exec.Command("mkfs.ext4", "-q", "-F", "-d", filepath.Join(dir, "on-disk"), filepath.Join(dir, diskFile)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, err := h.BootReport(t.Context(), "m"); err != nil || string(got) != `{"run": 2}` {
		t.Errorf("%q, %v", got, err)
	}
	if err := h.makeDisk(t.Context(), dir, 1<<20, 0); !fault.Is(err, fault.Quota) {
		t.Errorf("a disk of a pebibyte: %v", err)
	}
}
