package volume

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"kops.local/kops/internal/engine/fault"
)

// inContainer, in the environment, makes the test's program act as one that sees the machine's
// files elsewhere.
const inContainer = "VOLUME_IS_MOUNTED_IN_CONTAINER"

// loop creates a loop device of size bytes, with a text at its start.
func loop(t *testing.T, size int64, text string) (device, file string) {
	t.Helper()
	if os.Getuid() != 0 {
		skipMissing(t, "mounting takes root")
	}
	file = filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Truncate(file, size)); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		skipMissing(t, "no loop device: "+string(out))
	}
	device = strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return device, file
}

func skipMissing(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("CANNOT RUN: " + why)
	}
	t.Skip("SKIPPED, NOTHING WAS MOUNTED: " + why)
}

func unmount(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Unmount(dir, 0); err != nil {
		t.Errorf("unmount %s: %v", dir, err)
	}
}

func host(t *testing.T) Host {
	return Host{Root: "/", Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
}

func TestABlankVolumeIsFormattedOnceAndGrows(t *testing.T) {
	device, file := loop(t, 64<<20, "")
	link := filepath.Join(t.TempDir(), "by-id")
	if err := os.Symlink(device, link); err != nil {
		t.Fatal(err)
	}
	h, v := host(t), Volume{ID: "vol-1", Devices: []string{"/dev/no-such-disk", link}}
	dir, err := h.Mount(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(h.Dir, "master-vol-1"); dir != want {
		t.Errorf("it is at %s, not %s", dir, want)
	}
	before := size(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "state"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := h.Mount(t.Context(), v)
	if text, _ := os.ReadFile(filepath.Join(dir, "state")); err != nil || again != dir || string(text) != "kept" {
		t.Errorf("a second time it is at %s with %q, %v", again, text, err)
	}
	unmount(t, dir)
	if err := os.Truncate(file, 256<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("losetup", "--set-capacity", device).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := h.Mount(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	defer unmount(t, dir)
	if text, err := os.ReadFile(filepath.Join(dir, "state")); string(text) != "kept" {
		t.Errorf("the disk has %q, %v", text, err)
	}
	if !mayGrow(t) {
		t.Log("NOT TESTED: a mounted file system grows only with the capability CAP_SYS_RESOURCE")
		return
	}
	if after := size(t, dir); after < 2*before {
		t.Errorf("the file system had %d bytes, and on a larger volume %d", before, after)
	}
}

// mayGrow reports whether this process has the capability CAP_SYS_RESOURCE.
func mayGrow(t *testing.T) bool {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "CapEff:\t")
	text, _, _ := strings.Cut(rest, "\n")
	capabilities, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	const sysResource = 24
	return capabilities>>sysResource&1 == 1
}

func size(t *testing.T, dir string) uint64 {
	t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		t.Fatal(err)
	}
	return s.Blocks * uint64(s.Bsize)
}

func TestUnknownContentIsNotFormatted(t *testing.T) {
	device, file := loop(t, 16<<20, "LUKS")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	h := host(t)
	if _, err := h.Mount(t.Context(), Volume{ID: "vol-1", Devices: []string{device}}); !fault.Is(err, fault.Permanent) || fault.Remedy(err) == "" {
		t.Errorf("mounted with %v", err)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the disk was written to, %v", err)
	}
	if _, err := h.Mount(t.Context(), Volume{ID: "vol-1", Devices: []string{"/dev/no-such-disk"}}); !fault.Is(err, fault.NotYet) {
		t.Errorf("a disk that does not show yet: %v", err)
	}
	if _, err := h.Mount(t.Context(), Volume{ID: "vol-1", Devices: []string{"/dev/null"}}); !fault.Is(err, fault.Permanent) {
		t.Errorf("a device that is not a disk: %v", err)
	}
}

// TestAContainerMountsOnItsMachine runs in its own mount namespace, where the
// machine's files are at another path, and mounts a volume both in its own and in
// the machine's.
func TestAContainerMountsOnItsMachine(t *testing.T) {
	if root := os.Getenv(inContainer); root != "" {
		h := Host{Root: root, Dir: os.Getenv("DIR"), Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
		dir, err := h.Mount(t.Context(), Volume{ID: "vol-1", Folder: "cloud-1", Devices: []string{os.Getenv("DEVICE")}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "state"), []byte("of the container"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Mount(t.Context(), Volume{ID: "vol-1", Folder: "cloud-1", Devices: []string{os.Getenv("DEVICE")}}); err != nil {
			t.Errorf("a second time: %v", err)
		}
		return
	}
	device, _ := loop(t, 32<<20, "")
	root, dir := t.TempDir(), t.TempDir()
	// The first shell is the machine's first process, and the second the container.
	const machine = `sh -c "$0" "$@" && cat "$DIR/cloud-1/state"`
	const container = `mount --make-rprivate / && mount --rbind / "$0" && exec "$@"`
	cmd := exec.Command("unshare", "--pid", "--mount", "--fork", "--mount-proc", "sh", "-c", machine,
		"exec unshare --mount sh -c '"+container+"' \"$0\" \"$@\"", root, os.Args[0], "-test.run=^TestAContainerMountsOnItsMachine$", "-test.v")
	cmd.Env = append(os.Environ(), inContainer+"="+root, "DIR="+dir, "DEVICE="+device)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.HasSuffix(string(out), "of the container") {
		t.Errorf("on the machine there is %s", out)
	}
}
