package servers

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"kops.local/kops/internal/store"
)

// Tool returns the path of a program from a Go module: its main package is pinned by
// tools/NAME/go.mod. If the user's cache does not have that version, it is built,
// which may take some minutes. Tests of several packages may call it concurrently; one builds.
func Tool(t testing.TB, name, main string) string {
	t.Helper()
	module := filepath.Join(moduleRoot(t), "tools", name)
	pins, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		SkipMissing(t, "there is no cache folder for the program "+name+": "+err.Error())
	}
	dir := filepath.Join(cache, "kops-test-servers")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, name+"-"+store.Digest(pins)[:12])
	lock, err := os.OpenFile(program+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close() // releases the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err == nil {
		return program
	}
	build := exec.Command("go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w", "-o", program+".new", main)
	build.Dir = module
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		SkipMissing(t, name+" cannot be built: "+err.Error()+"\n"+string(out))
	}
	if err := os.Rename(program+".new", program); err != nil {
		t.Fatal(err)
	}
	return program
}

// moduleRoot is the folder of this project's go.mod.
func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "tools", "versitygw", "go.mod")); err == nil {
			return dir
		}
		if filepath.Dir(dir) == dir {
			t.Fatal("tools/versitygw is in no folder above this test's")
		}
		dir = filepath.Dir(dir)
	}
}
