package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/node/agent"
)

// A machine whose files are in a bucket is set up with them.
func TestAMachineWithFilesInABucket(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		w.Header().Set("ETag", `"x"`)
		_, _ = fmt.Fprint(w, "program") // the test would fail
	}))
	t.Cleanup(server.Close)
	p := newTestMachine(t)
	p.kubeletAt("s3://bundle/dir/kubelet")
	p.env = map[string]string{"S3_ENDPOINT": server.URL, "S3_REGION": "eu-west-3", "S3_ACCESS_KEY_ID": "id", "S3_SECRET_ACCESS_KEY": "secret"}
	if code := p.run(); code != 0 || len(asked) != 1 || asked[0] != "/bundle/dir/kubelet" {
		t.Errorf("code %d, asked %v\n%s", code, asked, &p.err)
	}
}

// small mounts a file system of the given size over the machine's folder.
func (p *testMachine) small(size string) {
	p.Helper()
	if err := syscall.Mount("none", p.root, "tmpfs", 0, "size="+size); err != nil {
		if os.Getenv("CI") == "true" {
			p.Fatal("CANNOT RUN: a small file system cannot be mounted here: ", err)
		}
		p.Skip("SKIPPED, NOTHING WAS TESTED: a small file system cannot be mounted here: ", err)
	}
	p.Cleanup(func() { _ = syscall.Unmount(p.root, 0) }) // the test is over
	write(p.T, filepath.Join(p.root, "etc/os-release"), []byte("ID=debian\nVERSION_ID=\"13\"\n"))
}

func TestABadEnvironmentGivesOneMessage(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/mirror/kubelet" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = fmt.Fprint(w, "of a mirror") // the test would fail
	}))
	t.Cleanup(server.Close)
	gone, mirror := server.URL+"/gone/kubelet", server.URL+"/mirror/kubelet"
	digest := func(text string) string { sum := sha256.Sum256([]byte(text)); return hex.EncodeToString(sum[:]) }
	const room = "free space on the disk, or give the machine a larger one; then run nodeup again, which continues where it stopped"
	for _, c := range []struct {
		name, phase   string
		spoil         func(*testMachine)
		error, remedy string // the end of the phase's error, and its complete remedy
	}{
		{"a file that is another, and one that is not there", agent.PhaseDownload, func(p *testMachine) { p.kubeletAt(mirror + "," + gone) },
			"host_asset/kubelet: fetch kubelet: " + mirror + ": the file is not the requested one: its SHA-256 digest is " + digest("of a mirror") + ", not " + digest("program") +
				"; " + gone + ": the server answers 404 Not Found",
			"make one of these places reachable from the machine, or set spec.assets.fileRepository to a mirror that has the file with the given digest"},
		{"a full disk", agent.PhaseFiles, func(p *testMachine) { p.small("16k") },
			"write the inventory of this run: write ROOT/var/lib/kops/.inventory.json.kops-new: no space left on device", room},
		{"a disk that is full later", "", func(p *testMachine) { p.small("96k") }, ": no space left on device", room},
		{"no configuration", agent.PhaseConfigure, func(p *testMachine) { p.boot.ConfigBase = "file:///nowhere/c"; p.save() },
			"open /nowhere/c/igconfig/control-plane/cp/nodeupconfig.yaml: no such file or directory",
			"run kops update cluster --yes to write it, and check that the machine can reach the cluster's store"},
		{"a key that was lost", agent.PhaseRead, func(p *testMachine) {
			if err := os.Remove(filepath.Join(p.state, "c/pki/private", pki.AggregatorCA, "keyset.yaml")); err != nil {
				p.Fatal(err)
			}
		}, "/keyset.yaml: no such file or directory", "run kops update cluster --yes to write it, and check that the machine can reach the cluster's store"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newTestMachine(t)
			c.spoil(p)
			code, reported := p.run(), false
			text := strings.ReplaceAll(p.err.String(), p.root, "ROOT")
			for line := range strings.Lines(text) { // the log lines of the phase; the report itself may not fit on the disk
				phase, news, _ := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "nodeup: "), ": ")
				if !strings.HasPrefix(line, "nodeup: ") || !strings.HasPrefix(news, "failed after ") {
					continue
				}
				reported = true
				if c.phase != "" && phase != c.phase || !strings.HasSuffix(news, c.error+"; "+c.remedy) {
					t.Errorf("the phase %s: %s\nwant %s: %s; %s", phase, news, c.phase, c.error, c.remedy)
				}
			}
			_, last, _ := strings.Cut(text, "\nError: ")
			if code != 1 || !reported || strings.Count(last, c.remedy) != 1 || !strings.Contains(last, c.error) || strings.Count(last, "\n") > 2 {
				t.Errorf("code %d\n%s", code, text)
			}
			if c.phase != "" {
				if r := p.report(); r.Done || r.Broken() == nil || r.Broken().Name != c.phase || r.Broken().Remedy != c.remedy {
					t.Errorf("the report\n%s", r.String())
				}
			}
			if left := p.partialFiles(); len(left) > 0 {
				t.Errorf("left half-written: %v", left)
			}
		})
	}
}
