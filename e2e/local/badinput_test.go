package local

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/platform/local/localcloud"
	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/platform/local/site"
)

// TestBadInput: a corrupt file of the bundle and a wrong proof of identity are refused, with the reason, and
// the cluster recovers.
func TestBadInput(t *testing.T) {
	localtest.ClusterTurn(t, 0, 4)
	w := newWorld(t)
	w.create("--node-count", "1")
	t.Run("a file of the bundle is corrupt", func(t *testing.T) { w.forTest(t).corruptFile() })
	t.Run("a proof of identity is wrong", func(t *testing.T) { w.forTest(t).registerWrongKey() })
	w.waitUntilValid()
	w.delete()
}

// forTest returns the same world for a subtest.
func (w *world) forTest(t *testing.T) *world {
	part := *w
	part.T = t
	return &part
}

// corruptFile corrupts kubelet in the bundle before a machine downloads it.
func (w *world) corruptFile() {
	version := strings.TrimSpace(w.must("bundle", "version").out) // a bundle may contain more versions than the cluster's
	file := filepath.Join(w.tools.bundle, "files", "release", "v"+version, "bin", "linux", runtime.GOARCH, "kubelet")
	w.flip(file)
	spoilt := true
	mend := func() {
		if spoilt {
			w.flip(file)
			spoilt = false
		}
	}
	w.Cleanup(mend)
	if r := w.run(w.Context(), time.Minute, "bundle", "verify"); r.code == 0 || !strings.Contains(r.err, "/kubelet") {
		w.Errorf("kops bundle verify: exit %d\n%s%s", r.code, r.out, r.err)
	}
	w.size(2)
	m := w.waitUntilStuck("download")
	for _, want := range []string{"kubelet", "digest"} {
		if !strings.Contains(strings.ToLower(m.Message), want) {
			w.Errorf("the message lacks %q: %s", want, m.Message)
		}
	}
	if m.Remedy == "" {
		w.Error("no remedy is told")
	}
	mend()
	w.must("bundle", "verify")
	start := time.Now()
	w.waitUntilJoined(nodes, 2)
	w.figures.seconds("a corrupt file is mended, to ready", time.Since(start))
	w.waitUntilValid()
}

// flip inverts one bit in the middle of a file; calling it twice restores the file.
func (w *world) flip(file string) {
	w.Helper()
	text, err := os.ReadFile(file)
	w.ok(err)
	text[len(text)/2] ^= 1
	w.ok(site.Write(file, text, 0o644))
}

// size sets the number of machines of the group of workers.
func (w *world) size(n int) {
	w.Helper()
	w.must("edit", "instancegroup", nodes, "--name", cluster, "--set", fmt.Sprintf("spec.maxSize=%d", n), "--set", fmt.Sprintf("spec.minSize=%d", n))
	w.must("update", "cluster", cluster, "--yes")
}

// waitUntilStuck waits until a boot phase of one machine is broken, and returns the report of
// kops doctor, after checking that kops validate reports the same.
func (w *world) waitUntilStuck(phase string) health.MachineDiagnosis {
	w.Helper()
	var out health.MachineDiagnosis
	w.wait("the start of a machine is broken in the phase "+phase, 2*time.Minute, func() error {
		r := w.run(w.Context(), time.Minute, "doctor", cluster, "-o", "json")
		var d health.Diagnosis
		if err := json.Unmarshal([]byte(r.out), &d); err != nil {
			return fmt.Errorf("kops doctor: exit %d: %w\n%s", r.code, err, r.err)
		}
		i := slices.IndexFunc(d.Machines, func(m health.MachineDiagnosis) bool {
			return m.Status == "not joined" && m.Boot != nil && m.Boot.Broken() != nil
		})
		if i < 0 {
			return fmt.Errorf("no start is broken; kops doctor: exit %d, %v", r.code, d.Failures)
		}
		out = d.Machines[i]
		if p := out.Boot.Broken(); p.Name != phase || r.code != 2 {
			return fmt.Errorf("exit %d, and the broken phase is %s, %s: %s", r.code, p.Name, p.State, p.Error)
		}
		return nil
	})
	r := w.run(w.Context(), time.Minute, "validate", "cluster", cluster)
	if r.code != 2 || !strings.Contains(r.out, out.Name) || !strings.Contains(r.out, "failed in the phase "+phase) {
		w.Errorf("kops validate: exit %d\n%s%s", r.code, r.out, r.err)
	}
	w.Logf("%s: %s\n\tremedy: %s", out.Name, out.Message, out.Remedy)
	return out
}

// registerWrongKey registers another key for a machine than the machine has.
func (w *world) registerWrongKey() {
	before := namesOf(w.machines(""))
	stop := make(chan struct{})
	type swapped struct {
		file     string
		identity []byte
		err      error
	}
	found := make(chan swapped, 1)
	go func() { // the machine sends its request some seconds after it is registered
		for {
			file, identity, err := w.swapKey(before)
			if err != nil || file != "" {
				found <- swapped{file, identity, err}
				return
			}
			select {
			case <-stop:
				found <- swapped{err: errors.New("no machine was registered")}
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	w.size(3)
	select {
	case <-time.After(30 * time.Second):
		close(stop)
	case s := <-found:
		found <- s
	}
	s := <-found
	w.ok(s.err)
	m := w.waitUntilStuck("configure")
	if !strings.Contains(s.file, m.Name) {
		w.Errorf("the key of %s was replaced, and stuck is %s", s.file, m.Name)
	}
	if !strings.Contains(m.Message, "signature") && !strings.Contains(m.Message, "key") || m.Remedy == "" {
		w.Errorf("the refusal says: %s; remedy: %s", m.Message, m.Remedy)
	}
	w.ok(site.Write(s.file, s.identity, 0o644))
	start := time.Now()
	w.waitUntilJoined(nodes, 3)
	w.figures.seconds("a registered key is mended, to ready", time.Since(start))
}

// swapKey changes the public key in the registry of a machine that is not listed in before. It
// returns the path and the old content of the machine's entry, or "" if no such machine exists yet.
func (w *world) swapKey(before []string) (file string, was []byte, err error) {
	entries, err := site.List(w.site.Path(site.Registry))
	if err != nil {
		return "", nil, err
	}
	at := slices.IndexFunc(entries, func(e string) bool { return !slices.Contains(before, strings.TrimSuffix(e, ".json")) })
	if at < 0 {
		return "", nil, nil
	}
	file = w.site.Path(site.Registry, entries[at])
	if was, err = os.ReadFile(file); err != nil {
		return "", nil, err
	}
	var identity localcloud.Machine
	if err := json.Unmarshal(was, &identity); err != nil {
		return "", nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", nil, err
	}
	identity.PublicKey = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	text, err := json.Marshal(identity)
	if err != nil {
		return "", nil, err
	}
	return file, was, site.Write(file, text, 0o644)
}
