package awstest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"kops.local/kops/internal/store"
)

// versityPackage is the gateway's main package; tools/versitygw/go.mod pins its version.
const versityPackage = "github.com/versity/versitygw/cmd/versitygw"

// Versity starts a Versity S3 gateway on a folder of its own, for the test and
// everything below it. The program is built from its Go module on first use, which
// takes some minutes, and kept in the user's cache.
func Versity(t testing.TB) *Server {
	t.Helper()
	program := versityProgram(t)
	s := &Server{Region: "us-east-1", AccessKey: "testing", SecretKey: "testingtesting"}
	var err error
	for range 3 { // somebody may take the address before the gateway does, which then ends
		addr := freeAddress(t)
		cmd := exec.Command(program, "--port", addr, "--region", s.Region, "--quiet", "--keep-alive", "posix", t.TempDir())
		cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s.AccessKey, "ROOT_SECRET_KEY="+s.SecretKey)
		if s.URL, err = run(t, cmd, func(string) string { return "http://" + addr }, ""); err == nil {
			return s
		}
	}
	t.Fatal(err)
	return nil
}

// freeAddress is an address of this machine on which nothing listens.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // its port is the point
	return l.Addr().String()
}

// versityProgram returns the gateway's path, having built it when the cache has none
// of the pinned version. Tests of several packages may ask at once; one builds.
func versityProgram(t testing.TB) string {
	t.Helper()
	module := filepath.Join(moduleRoot(t), "tools", "versitygw")
	pins, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		missing(t, "there is no cache folder for the versitygw program: "+err.Error())
	}
	dir := filepath.Join(cache, "kops-test-servers")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "versitygw-"+store.Digest(pins)[:12])
	lock, err := os.OpenFile(program+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close() // gives the lock back
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err == nil {
		return program
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program+".new", versityPackage)
	build.Dir = module
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		missing(t, "versitygw cannot be built: "+err.Error()+"\n"+string(out))
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
