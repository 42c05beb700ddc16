// Package etcdtest provides tests with real etcd programs, either built by
// tools/kubernetes or built once from their Go modules and kept in the user's
// cache, and with files of certificate authorities.
//
// It must not know what is tested with them.
package etcdtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"kops.local/kops/internal/contract/pki"
)

// Old, New and Newest are three versions of etcd, one minor version apart.
const Old, New, Newest = "3.5.35", "3.6.12", "3.7.0"

// utilities returns the version of etcdutl for each version of etcd; not every etcd patch
// release has a published etcdutl module. Nothing is restored with Newest.
func utilities() map[string]string {
	return map[string]string{Old: "3.5.35", New: "3.6.14", Newest: ""}
}

// Programs returns a folder with etcd-vVERSION/etcd, and, except for Newest,
// etcdutl. If they cannot be built the test is skipped, or fails if the
// environment has CI=true.
func Programs(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		skipMissing(t, fmt.Errorf("there is no cache folder for the programs of etcd: %w", err))
	}
	dir := filepath.Join(cache, "kops-test-servers", "etcd")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close() // releases the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	for version, utility := range utilities() {
		to := filepath.Join(dir, "etcd-v"+version)
		err := provide(t, cache, "go.etcd.io/etcd/server/v3", version, filepath.Join(to, "etcd"))
		if utility != "" {
			err = errors.Join(err, provide(t, cache, "go.etcd.io/etcd/etcdutl/v3", utility, filepath.Join(to, "etcdutl")))
		}
		if err != nil {
			skipMissing(t, err)
		}
	}
	return dir
}

// provide makes a program available at a path, unless it exists: one that
// tools/kubernetes has built, or a new build.
func provide(t testing.TB, cache, module, version, to string) error {
	t.Helper()
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	name := filepath.Base(to)
	built := filepath.Join(cache, "kops", "build", name+"-v"+version+"-"+runtime.GOARCH, "bin", name)
	if _, err := os.Stat(built); err != nil {
		return build(t, module, version, to)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	_ = os.Remove(to) // a dangling link
	return os.Symlink(built, to)
}

// build builds a program from a module.
func build(t testing.TB, module, version, to string) error {
	t.Helper()
	t.Logf("building %s %s, once", module, version)
	dir := t.TempDir()
	files := map[string]string{
		"go.mod":   "module build\n\ngo 1.26.0\n",
		"tools.go": fmt.Sprintf("//go:build tools\n\npackage tools\n\nimport _ %q\n", module),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"get", module + "@v" + version}, {"build", "-mod=mod", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w", "-o", to + ".new", module}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s of %s: %w\n%s", args[0], module, err, out)
		}
	}
	return os.Rename(to+".new", to)
}

func skipMissing(t testing.TB, why error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skipf("SKIPPED, real etcd is not tested: %v", why)
}

// Authorities writes etcd-manager-ca, etcd-peers-ca and etcd-clients-ca into a folder.
func Authorities(t testing.TB, dir string) {
	t.Helper()
	i := pki.Issuer{Rand: rand.Reader, Now: time.Now, Generate: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }}
	for _, name := range []string{"etcd-manager-ca", "etcd-peers-ca", "etcd-clients-ca"} {
		p, err := i.SelfSigned(pki.Request{Usage: pki.Authority, CommonName: name})
		if err != nil {
			t.Fatal(err)
		}
		key, err := p.Key.PEM()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".key"), key, 0o600)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".crt"), pki.EncodeCertificate(p.Certificate), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
