package agent_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/agent"
	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/node/host"
)

const (
	controlPlane = "testdata/local-control-plane.txtar"
	worker       = "testdata/local-worker.txtar"
)

func TestASecondRunChangesNothing(t *testing.T) {
	for _, file := range []string{controlPlane, worker, "testdata/aws-control-plane.txtar", "testdata/aws-worker.txtar", "testdata/aws-worker-rhel.txtar"} {
		w := newWorld(t, file)
		if text := w.preview(); !strings.Contains(text, "/etc/containerd/config.toml") {
			t.Errorf("the first preview is\n%s", text)
		}
		if len(w.files()) != 3 {
			t.Error("a preview has written files")
		}
		if err := w.converge(); err != nil {
			t.Fatal(err)
		}
		keys := w.read("/srv/kubernetes/kubelet-server.key")
		if text := w.preview(); strings.Contains(text, "host_") {
			t.Errorf("%s: the second preview is\n%s", file, text)
		}
		var journal bytes.Buffer
		a := w.agent()
		a.Journal = &journal
		if err := a.Converge(context.Background(), w.boot); err != nil {
			t.Fatal(err)
		}
		if journal.Len() > 0 || keys != w.read("/srv/kubernetes/kubelet-server.key") {
			t.Errorf("%s: the second run did\n%s", file, &journal)
		}
	}
}

// interruption stops a run before its n-th step.
type interruption struct {
	remaining int
	io.Writer
}

var errCut = errors.New("the machine lost its power")

func (c *interruption) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(`"begin"`)) {
		if c.remaining--; c.remaining < 0 {
			return 0, errCut
		}
	}
	return len(p), nil
}

func TestARunThatWasCutOffAnywhereIsFinishedByTheNext(t *testing.T) {
	for _, file := range []string{controlPlane, worker} {
		whole := newWorld(t, file)
		if err := whole.converge(); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprint(whole.files())
		steps := 0
		for _, p := range whole.lastReport().Phases {
			steps += p.Steps
		}
		if steps < 40 {
			t.Fatalf("only %d steps", steps)
		}
		for n := 0; n < steps; n += 6 {
			w := newWorld(t, file)
			a := w.agent()
			a.Journal = &interruption{remaining: n}
			if err := a.Converge(context.Background(), w.boot); !errors.Is(err, errCut) {
				t.Fatalf("cut before step %d: %v", n, err)
			}
			if err := w.converge(); err != nil {
				t.Fatalf("after a cut before step %d: %v", n, err)
			}
			if text := w.preview(); strings.Contains(text, "host_") {
				t.Errorf("after a cut before step %d there is left to do:\n%s", n, text)
			}
			if got := fmt.Sprint(w.files()); got != want {
				t.Errorf("after a cut before step %d the files are others", n)
			}
		}
	}
}

// leftovers returns the files that a step has left unfinished.
func leftovers(t *testing.T, root string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(at string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasPrefix(filepath.Base(at), ".") {
			out = append(out, at)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestBadInputEndsInOneClearMessage(t *testing.T) {
	const kubelet = "http://10.77.0.1:8080/release/v1.34.0/bin/linux/amd64/kubelet"
	for _, c := range []struct {
		name, file string
		spoil      func(*world)
		phase      string
		message    string // a substring of it
		remedy     string
	}{
		{"a changed byte in a fetched file", worker, func(w *world) { w.mirrors[kubelet][3] ^= 1 }, agent.PhaseDownload,
			"fetch kubelet: " + kubelet + ": the file is not the requested one: its SHA-256 digest is", "set spec.assets.fileRepository to a mirror"},
		{"a mirror that cannot be reached", worker, func(w *world) { delete(w.mirrors, kubelet) }, agent.PhaseDownload,
			"fetch kubelet: " + kubelet + ": no route to host", "make one of these places reachable"},
		{"another node configuration", controlPlane, func(w *world) {
			for url, text := range w.store {
				if strings.HasSuffix(url, "nodeupconfig.yaml") {
					w.store[url] = append(text, '\n')
				}
			}
		}, agent.PhaseConfigure, "the node configuration is not the one that this machine was started with", "kops rolling-update cluster --yes"},
		{"an authority that was promoted meanwhile", controlPlane, func(w *world) {
			for url, text := range w.store {
				if strings.HasSuffix(url, "kubernetes-ca/keyset.yaml") {
					w.store[url] = bytes.ReplaceAll(text, []byte(authorities()[pki.KubernetesCA].Primary), []byte("17"))
				}
			}
		}, agent.PhaseRead, "the primary key of kubernetes-ca is 17, but the machine was started when it was", "kops rolling-update cluster --yes"},
		{"a manifest that is not in the store", controlPlane, func(w *world) {
			for url := range w.store {
				if strings.HasSuffix(url, "kops-channels.yaml") {
					delete(w.store, url)
				}
			}
		}, agent.PhaseRead, "kops-channels.yaml: there is no object", ""},
		{"a proof that is refused", worker, func(w *world) {
			w.joiner.fail = fault.Wrap(fault.Denied, errors.New("the machine is not of this cluster"), "see the controller's log")
		}, agent.PhaseConfigure, "get the node configuration from kops-controller: the machine is not of this cluster", "see the controller's log"},
		{"an unknown field", controlPlane, func(w *world) { w.boot = append(w.boot, []byte("Colour: red\n")...) }, agent.PhaseIdentify, `unknown field "Colour"`, ""},
		{"another distribution", worker, func(w *world) { w.host.Like = "arch"; w.host.Distro = "arch" }, agent.PhaseModel, "the distribution arch 13 is not supported", ""},
		{"a folder that cannot be written", worker, func(w *world) { w.write("/etc/kubernetes", "a file") }, agent.PhaseFiles, "not a directory", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.file)
			c.spoil(w)
			err := w.converge()
			if err == nil {
				t.Fatal("no error")
			}
			report := w.lastReport()
			p := report.Broken()
			if p == nil || p.Name != c.phase || !strings.Contains(p.Error, c.message) || !strings.Contains(p.Remedy, c.remedy) || report.Done {
				t.Errorf("report:\n%s\nwant the phase %s broken by %q; %s", report.String(), c.phase, c.message, c.remedy)
			}
			if left := leftovers(t, w.root); len(left) > 0 {
				t.Errorf("left half-written: %v", left)
			}
		})
	}
}

func TestAFailedRunStartsOver(t *testing.T) {
	w := newWorld(t, worker)
	a := w.agent()
	a.Retries = 3
	pauses := []time.Duration{5 * time.Second, 10 * time.Second}
	w.joiner.fail = fault.New(fault.NotYet, "the controller is not there")
	a.Clock.Sleep = func(ctx context.Context, d time.Duration) error {
		if len(pauses) > 0 && d == pauses[0] {
			if pauses = pauses[1:]; len(pauses) == 0 {
				w.joiner.fail = nil
			}
		}
		return nil
	}
	if err := a.Converge(context.Background(), w.boot); err != nil {
		t.Fatal(err)
	}
	r := w.lastReport()
	if p := r.Phases[1]; r.Run != 3 || p.Name != agent.PhaseConfigure || p.Attempts != 3 || p.State != report.Passed || !strings.Contains(p.Error, "the controller is not there") {
		t.Errorf("run %d, report:\n%s", r.Run, r.String())
	}
}

func TestAMemberNeedsNothing(t *testing.T) {
	w := newWorld(t, worker)
	w.joiner.joined = true
	w.addEarlierRun()
	if err := w.converge(); err != nil {
		t.Fatal(err)
	}
	if r := w.lastReport(); !r.Done || len(w.files()) != 3 { // which does not include the inventory
		t.Errorf("report:\n%s", r.String())
	}
}

// A machine that a cloud recreated under the name of another is told that it is already a
// member, because the other's node still exists. It is not a member, and waits.
func TestAReplacementMachineIsNotAMember(t *testing.T) {
	w := newWorld(t, worker)
	w.joiner.joined = true
	if err := w.converge(); !fault.Of(err).Retryable() || !strings.Contains(err.Error(), "is still ready") || fault.Remedy(err) == "" {
		t.Errorf("got %v", err)
	}
	w.joiner.joined = false
	if err := w.converge(); err != nil {
		t.Error(err)
	}
}

// addEarlierRun leaves the files that an earlier run of nodeup leaves.
func (w *world) addEarlierRun() {
	w.Helper()
	file := filepath.Join(w.root, "var/lib/kops/inventory.json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("[]\n"), 0o644)); err != nil {
		w.Fatal(err)
	}
}

func TestCertificatesAreReissuedOnlyWhenNecessary(t *testing.T) {
	w := newWorld(t, controlPlane)
	if err := w.converge(); err != nil {
		t.Fatal(err)
	}
	const server, etcd = "/srv/kubernetes/kube-apiserver/server.crt", "/srv/kubernetes/kube-apiserver/etcd-client.crt"
	for _, c := range []struct {
		name         string
		change       func()
		server, etcd bool // whether it differs
	}{
		{"nothing", func() {}, false, false},
		{"another mode", func() { _ = os.Chmod(filepath.Join(w.root, etcd), 0o600) }, false, false},
		{"a key that does not fit", func() {
			w.write("/srv/kubernetes/kube-apiserver/etcd-client.key", w.read("/srv/kubernetes/kube-apiserver/server.key"))
		}, false, true},
		{"a broken certificate", func() { w.write(server, "x") }, true, false},
		{"another address", func() { w.boot = bytes.ReplaceAll(w.boot, []byte("- 10.77.0.2\n"), []byte("- 10.77.0.4\n")) }, true, false},
		{"near the end", func() { w.machine.Now = func() time.Time { return now().Add(400 * 24 * time.Hour) } }, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := [2]string{w.read(server), w.read(etcd)}
			c.change()
			if err := w.converge(); err != nil {
				t.Fatal(err)
			}
			if got := w.read(server) != before[0]; got != c.server {
				t.Errorf("the server's certificate was issued anew: %v", got)
			}
			if got := w.read(etcd) != before[1]; got != c.etcd {
				t.Errorf("etcd's client certificate was issued anew: %v", got)
			}
		})
	}
}

// doneSteps lists the steps that a journal records as done.
func doneSteps(journal *bytes.Buffer) (out []string) {
	for line := range strings.Lines(journal.String()) {
		if _, step, ok := strings.Cut(line, `"step":"`); ok && strings.Contains(line, `"done"`) {
			out = append(out, strings.TrimSuffix(strings.TrimSpace(step), `"}`))
		}
	}
	return out
}

func TestAChangedConfigurationRestartsWhatReadsIt(t *testing.T) {
	w := newWorld(t, controlPlane)
	if err := w.converge(); err != nil {
		t.Fatal(err)
	}
	w.host.Resolved = true // changes the kubelet's configuration
	var journal bytes.Buffer
	a := w.agent()
	a.Journal = &journal
	if err := a.Converge(context.Background(), w.boot); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(doneSteps(&journal), " "); text != "host_file//var/lib/kubelet/kubelet.conf host_unit/kubelet.service" {
		t.Errorf("done: %s", text)
	}
}

func TestProgramsThatReadACertificateOnceAreRestartedWithANewOne(t *testing.T) {
	for file, want := range map[string][]string{
		controlPlane: {"kops-channels.manifest", "kube-controller-manager.manifest", "kube-proxy.manifest", "kube-scheduler.manifest", "kubelet.service"},
		worker:       {"kube-proxy.manifest", "kubelet.service"},
	} {
		w := newWorld(t, file)
		if err := w.converge(); err != nil {
			t.Fatal(err)
		}
		w.machine.Now = func() time.Time { return now().Add(400 * 24 * time.Hour) }
		var journal bytes.Buffer
		a := w.agent()
		a.Journal = &journal
		if err := a.Converge(context.Background(), w.boot); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, step := range doneSteps(&journal) {
			if !strings.HasPrefix(step, "host_certificate/") {
				got = append(got, step[strings.LastIndex(step, "/")+1:])
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v were written, want %v", file, got, want)
		}
	}
}

func TestTheAPIServerEncryptsByTheSecretOfItsConfiguration(t *testing.T) {
	w := newWorld(t, controlPlane)
	var boot nodeconfig.Boot
	w.decode(string(w.boot), &boot)
	url := boot.ConfigBase + "/igconfig/control-plane/" + boot.InstanceGroupName + "/nodeupconfig.yaml"
	hash := func(text []byte) string {
		sum := sha256.Sum256(text)
		return base64.StdEncoding.EncodeToString(sum[:])
	}
	config := bytes.Replace(w.config, []byte("APIServerConfig:\n"), []byte("APIServerConfig:\n  EncryptionConfigSecretHash: "+hash([]byte("right"))+"\n"), 1)
	w.store[url] = config
	w.boot = bytes.ReplaceAll(w.boot, []byte(boot.NodeupConfigHash), []byte(hash(config)))
	for _, c := range []struct{ secret, message string }{
		{"", "the secret encryptionconfig does not exist"},
		{"wrong", "the secret encryptionconfig has changed since this machine was started"},
		{"right", ""},
	} {
		if c.secret != "" {
			text, err := pki.EncodeSecret(pki.NewSecret(c.secret))
			if err != nil {
				t.Fatal(err)
			}
			w.store[boot.ConfigBase+"/secrets/encryptionconfig"] = text
		}
		err := w.converge()
		told := w.lastReport()
		switch {
		case c.message == "" && (err != nil || w.read("/srv/kubernetes/kube-apiserver/encryptionconfig.yaml") != c.secret):
			t.Errorf("with the right secret: %v", err)
		case c.message != "" && (err == nil || err.Error() != c.message || told.Broken().Name != agent.PhaseRead || fault.Remedy(err) == ""):
			t.Errorf("with the secret %q: %v", c.secret, err)
		}
	}
}

func TestKeysOfWorkersStayThere(t *testing.T) {
	w := newWorld(t, worker)
	if err := w.converge(); err != nil {
		t.Fatal(err)
	}
	if w.joiner.requests != 3 {
		t.Errorf("%d certificates were asked for", w.joiner.requests)
	}
	for _, path := range []string{"/srv/kubernetes/kubelet-server.key", "/var/lib/kubelet/kubeconfig", "/var/lib/kube-proxy/kubeconfig"} {
		info, err := os.Stat(filepath.Join(w.root, path))
		if err != nil || info.Mode().Perm() != 0o400 {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
}

func TestWhatContainersReadBelongsToTheirUsers(t *testing.T) {
	w := newWorld(t, controlPlane)
	if err := w.converge(); err != nil {
		t.Fatal(err)
	}
	for key, owner := range map[string]int{
		"/etc/kubernetes/kube-apiserver-healthcheck/secrets/client.crt=/etc/kubernetes/kube-apiserver-healthcheck/secrets/client.key": 10012,
		"/etc/kubernetes/kops-controller/kops-controller.crt=/etc/kubernetes/kops-controller/kops-controller.key":                     10011,
		"/var/lib/kops/kubeconfig=": 10013, "/var/lib/kubelet/kubeconfig=": 0,
	} {
		got, err := host.Certificates.List(t.Context(), w.machine, resource.Scope{Names: []string{key}})
		if err != nil || len(got) != 1 || got[0].Owner != owner || got[0].Group != owner {
			t.Errorf("%s: %v %+v", key, err, got)
		}
	}
}
