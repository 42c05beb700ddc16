package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/node/agent"
	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/node/agent/run"
	"kops.local/kops/internal/platform/nodes"
	"kops.local/kops/internal/store/clusterstore"
)

// testMachine is a folder that stands in for a machine, and another with a cluster's store.
type testMachine struct {
	*testing.T
	root, conf string
	state      string // the folder that is the cluster's store
	env        map[string]string
	config     nodeconfig.Config
	boot       nodeconfig.Boot
	out, err   bytes.Buffer
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o600)); err != nil {
		t.Fatal(err)
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// newTestMachine creates a control plane machine with little to do, and its store.
func newTestMachine(t *testing.T) *testMachine {
	t.Helper()
	p := &testMachine{T: t, root: t.TempDir(), state: t.TempDir(), conf: filepath.Join(t.TempDir(), "kube_env.yaml"), env: map[string]string{"S3_ENDPOINT": "https://s3"}}
	state := p.state
	issuer := pki.Issuer{Rand: rand.Reader, Now: time.Now, Generate: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }}
	names := []string{pki.KubernetesCA, pki.AggregatorCA, pki.ServiceAccount, pki.EtcdClientsCA}
	keysets, _, err := pki.Ensure(nil, names, issuer)
	if err != nil {
		t.Fatal(err)
	}
	kubelet := filepath.Join(state, "kubelet")
	write(t, kubelet, []byte("program"))
	p.config = nodeconfig.Config{ClusterName: "c.example.com", KubernetesVersion: "1.36.3", CAs: map[string]string{}, KeypairIDs: map[string]string{},
		ConfigStore:        &nodeconfig.ConfigStore{Keypairs: "file://" + state + "/c/pki", Secrets: "file://" + state + "/c/secrets"},
		APIServerConfig:    &nodeconfig.APIServer{KubeAPIServer: &api.KubeAPIServerConfig{Image: "i"}},
		ControlPlaneConfig: &nodeconfig.ControlPlane{}, NTPUnmanaged: true, UpdatePolicy: api.UpdateExternal}
	for _, n := range names {
		p.config.CAs[n], p.config.KeypairIDs[n] = keysets[n].Bundle(), keysets[n].Primary
		text, err := clusterstore.EncodeKeyset(keysets[n])
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(state, "c/pki", "private/"+n+"/keyset.yaml"), text)
	}
	p.boot = nodeconfig.Boot{CloudProvider: "local", ClusterName: "c.example.com", InstanceGroupName: "cp", InstanceGroupRole: "ControlPlane", ConfigBase: "file://" + state + "/c"}
	p.kubeletAt("file://" + kubelet)
	write(t, filepath.Join(p.root, "etc/os-release"), []byte("ID=debian\nVERSION_ID=\"13\"\n"))
	return p
}

// kubeletAt writes the configuration with the kubelet's paths.
func (p *testMachine) kubeletAt(places string) {
	p.Helper()
	sum := sha256.Sum256([]byte("program"))
	p.config.Assets = map[download.Arch][]string{}
	for _, a := range download.Arches() {
		p.config.Assets[a] = []string{hex.EncodeToString(sum[:]) + "@" + places}
	}
	p.save()
}

// save writes the node configuration, and the boot configuration with its hash.
func (p *testMachine) save() {
	p.Helper()
	config := encode(p.T, p.config)
	write(p.T, filepath.Join(p.state, "c/igconfig/control-plane/cp/nodeupconfig.yaml"), config)
	sum := sha256.Sum256(config)
	p.boot.NodeupConfigHash = base64.StdEncoding.EncodeToString(sum[:])
	write(p.T, p.conf, encode(p.T, p.boot))
}

func (p *testMachine) run(args ...string) int {
	p.out.Reset()
	p.err.Reset()
	o := run.Options{Platforms: nodes.All(), Out: &p.out, Err: &p.err, Env: func(name string) string { return p.env[name] }}
	return nodeup(p.Context(), o, append([]string{"--conf=" + p.conf, "--root=" + p.root, "--retries=0"}, args...))
}

func (p *testMachine) report() report.Report {
	p.Helper()
	text, err := os.ReadFile(filepath.Join(p.root, "var/log/kops-boot.json"))
	var r report.Report
	if err := errors.Join(err, json.Unmarshal(text, &r)); err != nil {
		p.Fatal(err)
	}
	return r
}

func TestAMachineInAFolder(t *testing.T) {
	p := newTestMachine(t)
	if code := p.run("--dry-run"); code != 0 || !strings.Contains(p.out.String(), "/usr/local/bin/kubelet") {
		t.Fatalf("code %d\n%s%s", code, &p.out, &p.err)
	}
	if _, err := os.Stat(filepath.Join(p.root, "etc/kubernetes")); err == nil {
		t.Error("a dry run has written files")
	}
	if code := p.run("--v=8"); code != 0 || !strings.Contains(p.err.String(), "nodeup: services: done") {
		t.Fatalf("code %d\n%s", code, &p.err)
	}
	if r := p.report(); !r.Done || r.Cluster != "c.example.com" || r.Broken() != nil {
		t.Errorf("report\n%s", r.String())
	}
	if code := p.run(); code != 0 || strings.Contains(p.err.String(), "changed") {
		t.Errorf("the second run: code %d\n%s", code, &p.err)
	}
}

func TestAFailureIsReportedOnceWithItsRemedy(t *testing.T) {
	p := newTestMachine(t)
	text, err := os.ReadFile(p.conf)
	if err != nil {
		t.Fatal(err)
	}
	write(t, p.conf, bytes.Replace(text, []byte("NodeupConfigHash: "), []byte("NodeupConfigHash: x"), 1))
	if code := p.run(); code != 1 || !strings.Contains(p.err.String(), "nodeup: configure: failed") || !strings.Contains(p.err.String(), "run kops update cluster --yes") {
		t.Errorf("code %d\n%s", code, &p.err)
	}
	r := p.report()
	if b := r.Broken(); b == nil || b.Name != agent.PhaseConfigure {
		t.Errorf("broken phase %+v", b)
	}
}

func TestTheUnitIsInstalled(t *testing.T) {
	p := newTestMachine(t)
	if code := p.run("--install-systemd-unit"); code != 0 {
		t.Fatalf("code %d\n%s", code, &p.err)
	}
	unit, err := os.ReadFile(filepath.Join(p.root, "etc/systemd/system/kops-configuration.service"))
	if err != nil || !strings.Contains(string(unit), " --conf="+p.conf+" ") {
		t.Errorf("unit %s %v", unit, err)
	}
	env, err := os.ReadFile(filepath.Join(p.root, "etc/sysconfig/kops-configuration"))
	info, serr := os.Stat(filepath.Join(p.root, "etc/sysconfig/kops-configuration"))
	if err != nil || serr != nil || string(env) != "S3_ENDPOINT=\"https://s3\"\n" || info.Mode().Perm() != 0o600 {
		t.Errorf("environment %s, %v %v", env, err, serr)
	}
	for _, link := range []string{"multi-user.target.wants/kops-configuration.service", "timers.target.wants/kops-renewal.timer"} {
		if _, err := os.Lstat(filepath.Join(p.root, "etc/systemd/system", link)); err != nil {
			t.Error(err)
		}
	}
	renewal, err := os.ReadFile(filepath.Join(p.root, "etc/systemd/system/kops-renewal.service"))
	if err != nil || !strings.Contains(string(renewal), " --conf="+p.conf+" ") || !strings.Contains(string(renewal), " --renew\n") {
		t.Errorf("unit %s %v", renewal, err)
	}
	timer, err := os.ReadFile(filepath.Join(p.root, "etc/systemd/system/kops-renewal.timer"))
	if err != nil || !strings.Contains(string(timer), "OnCalendar=") {
		t.Errorf("timer %s %v", timer, err)
	}
}

func TestWrongCommandLines(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "Error: --conf is needed: the file with the boot configuration\n"},
		{[]string{"--conf=x", "y"}, "Error: unexpected argument \"y\"\n"},
		{[]string{"--conf=x", "--target=cloud"}, "Error: --target must be direct or dryrun, got \"cloud\"\n"},
		{[]string{"--conf=/nowhere"}, "Error: read the boot configuration: open /nowhere: no such file or directory\n"},
	} {
		var out, err bytes.Buffer
		if code := nodeup(t.Context(), run.Options{Out: &out, Err: &err, Env: func(string) string { return "" }}, c.args); code != 1 || err.String() != c.want {
			t.Errorf("%v: code %d, %s", c.args, code, &err)
		}
	}
}
