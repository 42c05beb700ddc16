package node

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/controller"
	kept "kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/platform/local/localcloud"
	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/platform/local/site"
	"kops.local/kops/internal/platform/providers"
	"kops.local/kops/internal/store"
)

// buildProgram returns a program that tools/ builds, from the user's cache.
func buildProgram(t *testing.T, module, name string) []byte {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(cache, "kops", "build", module+"-"+runtime.GOARCH, "bin", name))
	if err != nil {
		t.Fatalf("CANNOT RUN: %v; build it with the tools folder", err)
	}
	return data
}

// archive returns a .tar.gz of programs.
func archive(t *testing.T, module, folder string, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for _, n := range names {
		data := buildProgram(t, module, n)
		if err := w.WriteHeader(&tar.Header{Name: path.Join(folder, n), Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// released matches the version in the URL of a published file.
var released = regexp.MustCompile(`/release(?:s/download)?/v([^/]+)/`)

// bundle returns the files that a worker of a new cluster downloads, by the last path element, and
// the version of Kubernetes.
func bundle(t *testing.T) (files map[string][]byte, kubernetes string) {
	t.Helper()
	want, err := kept.ForDefault(providers.Of("local"), kept.Default{Kops: "dev"}, []download.Arch{download.Arch(runtime.GOARCH)})
	if err != nil {
		t.Fatal(err)
	}
	files = map[string][]byte{}
	for place := range want.Files {
		base, version := path.Base(place), ""
		if m := released.FindStringSubmatch(place); m != nil {
			version = m[1]
		}
		switch {
		case base == "kubelet":
			files[base] = buildProgram(t, "kubernetes-v"+version, "kubelet")
		case strings.HasPrefix(base, "runc."):
			files[base] = buildProgram(t, "runc-v"+version, "runc")
		case strings.HasPrefix(base, "containerd-"):
			files[base] = archive(t, "containerd-v"+version, "bin", "containerd", "containerd-shim-runc-v2", "ctr")
		case strings.HasPrefix(base, "cni-plugins-"):
			files[base] = archive(t, "cni-plugins-v"+version, "", "bridge", "host-local", "loopback", "portmap")
		}
	}
	if len(files) != 4 {
		t.Fatalf("a worker fetches %v", want.Files)
	}
	return files, want.Kubernetes
}

// registration is the state of each machine's Node.
type registration struct{ state atomic.Int32 }

func (r *registration) State(context.Context, string) (controller.NodeState, error) {
	return controller.NodeState(r.state.Load()), nil
}

func newIssuer() pki.Issuer {
	return pki.Issuer{Rand: rand.Reader, Now: time.Now, Generate: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }}
}

// serve serves on the host's address in the machines' network.
func (g *guest) serve(port string, h http.Handler, certificate *tls.Certificate) string {
	g.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort("10.199.77.1", port))
	g.ok(err)
	s := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	scheme := "http"
	if certificate != nil {
		l, scheme = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{*certificate}, ClientAuth: tls.RequestClientCert}), "https"
	}
	go s.Serve(l) //nolint:errcheck // it stops with the test
	g.Cleanup(func() { _ = s.Close() })
	return scheme + "://" + l.Addr().String()
}

// control starts a kops-controller and writes the boot configuration of the machine.
func (g *guest) control(files map[string][]byte, kubernetes string) *registration {
	g.Helper()
	mirror := g.serve("3989", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(files[path.Base(r.URL.Path)]))
	}), nil)
	keysets, _, err := pki.Ensure(nil, []string{pki.KubernetesCA}, newIssuer())
	g.ok(err)
	ca := keysets[pki.KubernetesCA]
	boot, config := g.configuration(mirror, files, kubernetes, ca)
	var known localcloud.Machine
	text, err := os.ReadFile(g.host.Path(site.Registry, name+".json"))
	g.ok(err)
	g.ok(json.Unmarshal(text, &known))
	entry, err := json.Marshal(bootstrap.Machine{Node: name, InstanceGroup: "nodes", PublicKey: known.PublicKey, Names: []string{name, known.Address}})
	g.ok(err)
	memory := store.NewMemory("memory://state")
	for key, text := range map[string][]byte{layout.MachineKey(name): entry, "igconfig/node/nodes/nodeupconfig.yaml": config} {
		_, err := memory.Put(g.Context(), key, text, store.PutOptions{})
		g.ok(err)
	}
	stored := controller.Stored{Base: memory, Secrets: store.Sub(memory, "secrets")}
	pair, err := newIssuer().Issue(pki.Request{Usage: pki.Server, CommonName: "kops-controller", Names: []string{boot.ConfigServer.TLSServerName}}, ca)
	g.ok(err)
	key, err := pair.Key.PEM()
	g.ok(err)
	own, err := tls.X509KeyPair(pki.EncodeCertificate(pair.Certificate), key)
	g.ok(err)
	trusted := x509.NewCertPool()
	trusted.AddCert(ca.Signer().Certificate)
	nodes := &registration{}
	g.serve("3988", &controller.Server{Verifier: bootstrap.NewMachineKeyVerifier(stored, time.Now), Nodes: nodes, Configs: stored, Signers: keysets, Trusted: trusted,
		Allowed: []string{"kubelet", "kubelet-server", "kube-proxy"}, Issuer: newIssuer(), Log: slog.New(slog.DiscardHandler)}, &own)
	out, err := yaml.Marshal(boot)
	g.ok(err)
	g.ok(os.WriteFile(filepath.Join(g.tools, "kube_env.yaml"), out, 0o644))
	return nodes
}

// configuration is the worker's configuration of the tests of package agent, with these files, and
// with kubelet settings for virtual machines.
func (g *guest) configuration(mirror string, files map[string][]byte, kubernetes string, ca *pki.Keyset) (nodeconfig.Boot, []byte) {
	g.Helper()
	a, err := txtar.ParseFile("../../internal/node/agent/testdata/local-worker.txtar")
	g.ok(err)
	var boot nodeconfig.Boot
	var c nodeconfig.Config
	for _, f := range a.Files {
		switch f.Name {
		case "in/boot.yaml":
			g.ok(yaml.UnmarshalStrict(f.Data, &boot))
		case "in/nodeupconfig.yaml":
			g.ok(yaml.UnmarshalStrict(f.Data, &c))
		}
	}
	c.KubernetesVersion, c.Assets, c.KeypairIDs[pki.KubernetesCA] = kubernetes, map[download.Arch][]string{}, ca.Primary
	yes := true
	k := c.KubeletConfig
	k.CgroupDriver, k.FailSwapOn, k.ProtectKernelDefaults, c.UpdatePolicy = "systemd", nil, &yes, api.UpdateAutomatic
	for base, data := range files {
		sum := sha256.Sum256(data)
		c.Assets[download.Arch(runtime.GOARCH)] = append(c.Assets[download.Arch(runtime.GOARCH)], fmt.Sprintf("%s@%s/%s", hex.EncodeToString(sum[:]), mirror, base))
	}
	c.ContainerdConfig.RegistryMirrors = map[string][]string{"*": {mirror}}
	config, err := yaml.Marshal(c)
	g.ok(err)
	sum := sha256.Sum256(config)
	boot.NodeupConfigHash = base64.StdEncoding.EncodeToString(sum[:])
	boot.ConfigServer.Servers, boot.ConfigServer.CACertificates = []string{"https://10.199.77.1:3988/"}, ca.Bundle()
	boot.APIServerIPs = []string{"10.199.77.1"}
	return boot, config
}

// joiner boots a machine with nodeup if clusters of real programs are enabled.
func joiner(t *testing.T) *guest {
	t.Helper()
	localtest.Cluster(t)
	g := boot(t)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(g.tools, "nodeup"), "kops.local/kops/cmd/nodeup")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return g
}

// TestAWorkerOfRealPrograms runs nodeup in a machine with the programs of a
// cluster, and logs how long each phase took.
func TestAWorkerOfRealPrograms(t *testing.T) {
	g := joiner(t)
	nodes := g.control(bundle(t))
	run := func(args ...string) {
		t.Helper()
		begin := time.Now()
		out, err := g.host.RunInside(t.Context(), name, append([]string{markerFile + "/nodeup", "--conf=" + markerFile + "/kube_env.yaml"}, args...)...)
		t.Logf("nodeup took %s:\n%s", time.Since(begin), out)
		g.ok(err)
	}
	run("--install-systemd-unit")
	first := g.report()
	_, err := g.host.RunInside(t.Context(), name, "sh", "-c", "while systemctl show -p ActiveState kops-configuration | grep activating; do sleep 0.1; done")
	g.ok(err)
	run("--retries=0")
	for _, p := range g.report().Phases {
		if p.Steps > 0 {
			t.Errorf("the second run has changed something in the phase %s", p.Name)
		}
	}
	warnings := slices.DeleteFunc(first.Warnings, func(w string) bool { return strings.HasPrefix(w, "the kernel module ") }) // the host may not have one
	if len(warnings) > 0 || len(first.Adapted) != 9 {
		t.Errorf("what is adapted to a container is %q, and warnings are %q", first.Adapted, warnings)
	}
	if first.Node != name {
		t.Errorf("the node is %q", first.Node)
	}
	for command, want := range map[string]string{
		"systemctl is-active containerd kubelet kubernetes-iptables-setup logrotate.timer":                                                                "active\nactive\nactive\nactive",
		"grep -c -e 'cgroupDriver: cgroupfs' -e 'failSwapOn: false' -e 'protectKernelDefaults: false' -e 'GracePeriod: 0s' /var/lib/kubelet/kubelet.conf": "4",
		"systemctl is-active kops-configuration":  "inactive",
		"systemctl is-enabled containerd kubelet": "enabled\nenabled",
		"mkdir -p /mnt/r; mount --bind / /mnt/r; ctr run --rm --rootfs /mnt/r one /bin/echo from a container 2>/dev/null": "from a container",
		"ctr plugins ls 2>/dev/null | awk '$2 == \"overlayfs\" && $1 ~ /snapshotter/ {print $NF}'":                        "ok",
		"grep -c '10.199.77.1 api.internal' /etc/hosts":                                                                   "1",
		"find / -xdev -name '*.kops-new' 2>/dev/null | wc -l":                                                             "0",
		"openssl verify -CAfile /srv/kubernetes/ca.crt /srv/kubernetes/kubelet-server.crt":                                "/srv/kubernetes/kubelet-server.crt: OK",
		"for i in $(seq 50); do curl -sk https://127.0.0.1:10250/healthz && break; sleep 0.2; done":                       "Unauthorized",
	} {
		out, err := g.host.RunInside(t.Context(), name, "sh", "-c", command)
		if got := strings.TrimSpace(string(out)); got != want {
			t.Errorf("%s: %q %v, want %q", command, got, err, want)
		}
	}
	nodes.state.Store(int32(controller.NodeReady))
	for _, step := range [][2]string{
		{"systemctl is-active kops-renewal.timer; systemctl is-enabled kops-renewal.timer", "active\nenabled"},
		{"rm /srv/kubernetes/kubelet-server.crt; systemctl show -p MainPID kubelet > /run/before; systemctl start kops-renewal.service; " +
			"while systemctl is-active -q kops-renewal.service; do sleep 0.1; done; systemctl show -p Result kops-renewal.service", "Result=success"},
		{"openssl verify -CAfile /srv/kubernetes/ca.crt /srv/kubernetes/kubelet-server.crt", "/srv/kubernetes/kubelet-server.crt: OK"},
		{"systemctl show -p MainPID kubelet | cmp - /run/before && echo runs on", "runs on"},
	} {
		out, err := g.host.RunInside(t.Context(), name, "sh", "-c", step[0])
		if got := strings.TrimSpace(string(out)); got != step[1] {
			log, _ := g.host.RunInside(t.Context(), name, "journalctl", "-u", "kops-renewal.service")
			t.Errorf("%s: %q %v, want %q\n%s", step[0], got, err, step[1], log)
		}
	}
}

// report waits for a run of nodeup to finish and returns its report.
func (g *guest) report() report.Report {
	g.Helper()
	var r report.Report
	deadline := time.Now().Add(time.Minute)
	for {
		text, err := g.host.RunInside(g.Context(), name, "cat", report.File)
		if err == nil {
			r = report.Report{}
			g.ok(json.Unmarshal(text, &r))
		}
		if r.Done || time.Now().After(deadline) {
			g.Logf("the report:\n%s%s", r.String(), strings.Join(r.Warnings, "\n"))
			if !r.Done {
				g.Fatal("nodeup has not ended")
			}
			return r
		}
		time.Sleep(50 * time.Millisecond)
	}
}
