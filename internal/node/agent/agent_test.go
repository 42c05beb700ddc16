package agent_test

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
	"encoding/base64"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/agent"
	"kops.local/kops/internal/node/agent/node"
	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/node/host"
	platforms "kops.local/kops/internal/platform/nodes"
	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/store/clusterstore"
)

var update = flag.Bool("update", false, "rewrite the transcripts")

func now() time.Time { return time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC) }

// issuer generates keys quickly; the tests do not compare keys.
func issuer() pki.Issuer {
	return pki.Issuer{Rand: rand.Reader, Now: now, Generate: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }}
}

// authorities are the keysets of every test cluster.
var authorities = sync.OnceValue(func() map[string]*pki.Keyset {
	all, _, err := pki.Ensure(nil, []string{pki.KubernetesCA, pki.AggregatorCA, pki.ServiceAccount, pki.EtcdClientsCA,
		pki.EtcdManagerCA("main"), pki.EtcdPeersCA("main"), pki.EtcdManagerCA("events"), pki.EtcdPeersCA("events")}, issuer())
	if err != nil {
		panic(err)
	}
	return all
})

// world is a machine in a temporary folder and everything it can reach.
type world struct {
	*testing.T
	root    string
	boot    []byte
	config  []byte
	host    node.Host
	store   store
	joiner  *controller
	machine *host.Machine
	offline *host.Offline
	// mirrors returns the content at a URL.
	mirrors map[string][]byte
	reports []report.Report
	clock   exec.Clock
}

type store map[string][]byte

func (s store) Read(_ context.Context, url string) ([]byte, error) {
	if text, ok := s[url]; ok {
		return text, nil
	}
	return nil, fault.New(fault.Gone, "there is no object")
}

// controller is a kops-controller that accepts every proof.
type controller struct {
	config   []byte
	node     string
	joined   bool
	requests int
	fail     error
}

func (c *controller) Configuration(context.Context, string) ([]byte, map[string][]byte, error) {
	if c.joined {
		return nil, nil, agent.ErrJoined
	}
	return c.config, map[string][]byte{"dockerconfig": []byte("{}")}, c.fail
}

func (c *controller) Certify(_ context.Context, keys map[string]crypto.PublicKey, ids map[string]string) (map[string][]byte, error) {
	c.requests++
	ca := authorities()[pki.KubernetesCA]
	if ids[pki.KubernetesCA] != ca.Primary {
		return nil, fault.New(fault.Denied, "another key")
	}
	out := map[string][]byte{}
	for name, k := range keys {
		r := pki.Request{Usage: pki.Client, PublicKey: k, CommonName: "system:" + name, Validity: 10000 * time.Hour}
		switch name {
		case "kubelet":
			r.CommonName, r.Organization = "system:node:"+c.node, []string{"system:nodes"}
		case "kubelet-server":
			r.CommonName, r.Usage, r.Names = c.node, pki.Server, []string{c.node, "10.0.0.9"}
		}
		p, err := issuer().Issue(r, ca)
		if err != nil {
			return nil, err
		}
		out[name] = pki.EncodeCertificate(p.Certificate)
	}
	return out, nil
}

// newWorld returns the world described by a transcript's inputs.
func newWorld(t *testing.T, file string) *world {
	t.Helper()
	w := &world{T: t, root: t.TempDir(), store: store{}, mirrors: map[string][]byte{}}
	in := map[string]string{}
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		if name, ok := strings.CutPrefix(f.Name, "in/"); ok {
			in[name] = string(f.Data)
		}
	}
	w.decode(in["host.yaml"], &w.host)
	var boot nodeconfig.Boot
	w.decode(in["boot.yaml"], &boot)
	platform, _ := onmachine.Find(platforms.All(), boot.CloudProvider)
	w.host.Traits = platform.Traits
	w.config = w.configuration(in["nodeupconfig.yaml"])
	sum := sha256.Sum256(w.config)
	boot.NodeupConfigHash = base64.StdEncoding.EncodeToString(sum[:])
	for name, text := range in {
		if key, ok := strings.CutPrefix(name, "store/"); ok {
			w.store[boot.ConfigBase+"/"+key] = []byte(text)
		}
	}
	if boot.ConfigServer != nil {
		boot.ConfigServer.CACertificates = authorities()[pki.KubernetesCA].Bundle()
		w.joiner = &controller{config: w.config, node: w.host.NodeName}
	} else {
		w.fillStore(boot)
	}
	if w.boot, err = yaml.Marshal(boot); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{"/etc/hosts": "127.0.0.1 localhost\n", "/etc/passwd": "root:x:0:0:root:/root:/bin/bash\n", "/etc/group": "root:x:0:\n"} {
		w.write(path, text)
	}
	w.offline = &host.Offline{Root: w.root}
	w.machine = &host.Machine{Root: w.root, Cache: "/var/cache/nodeup", Now: now, Systemd: w.offline, Fetch: w.fetch}
	w.clock = exec.Clock{Now: now, Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }, Jitter: func() float64 { return 0 }}
	return w
}

func (w *world) decode(text string, v any) {
	w.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), v); err != nil {
		w.Fatal(err)
	}
}

func (w *world) write(path, text string) {
	w.Helper()
	at := filepath.Join(w.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
		w.Fatal(err)
	}
}

func (w *world) read(path string) string {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(w.root, path))
	if err != nil {
		w.Fatal(err)
	}
	return string(text)
}

var assetLine = regexp.MustCompile(`[0-9a-f]{64}@(\S+)`)

// configuration inserts the test's keys and the digests of the files on its
// mirrors into a node configuration.
func (w *world) configuration(text string) []byte {
	w.Helper()
	var c nodeconfig.Config
	w.decode(text, &c)
	names := []string{pki.KubernetesCA}
	if c.APIServerConfig != nil {
		names = slices.Collect(maps.Keys(authorities()))
		var err error
		if c.APIServerConfig.ServiceAccountPublicKeys, err = authorities()[pki.ServiceAccount].PublicKeys(); err != nil {
			w.Fatal(err)
		}
	}
	for _, n := range names {
		c.KeypairIDs[n] = authorities()[n].Primary
		if c.APIServerConfig != nil && n != pki.ServiceAccount {
			c.CAs[n] = authorities()[n].Bundle()
		}
	}
	out, err := yaml.Marshal(c)
	if err != nil {
		w.Fatal(err)
	}
	return assetLine.ReplaceAllFunc(out, func(line []byte) []byte {
		url := string(assetLine.FindSubmatch(line)[1])
		w.mirrors[url] = fake(url)
		sum := sha256.Sum256(w.mirrors[url])
		return []byte(hex.EncodeToString(sum[:]) + "@" + url)
	})
}

// fake returns a small file that looks like the one at a URL.
func fake(url string) []byte {
	if !strings.HasSuffix(url, "gz") {
		return []byte("program " + url + "\n")
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	names := []string{"bin/containerd", "bin/ctr", "bin/containerd-shim-runc-v2"}
	if strings.Contains(url, "cni-plugins") {
		names = []string{"./bridge", "./host-local", "./loopback", "./portmap"}
	}
	for _, n := range names {
		text := "program " + n + "\n"
		_ = t.WriteHeader(&tar.Header{Name: n, Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}) // writes to memory do not fail
		_, _ = t.Write([]byte(text))
	}
	_ = errors.Join(t.Close(), z.Close())
	return b.Bytes()
}

func (w *world) fetch(_ context.Context, url string) (io.ReadCloser, error) {
	text, ok := w.mirrors[url]
	if !ok {
		return nil, fault.New(fault.NotYet, "no route to host")
	}
	return io.NopCloser(bytes.NewReader(text)), nil
}

// fillStore writes the cluster's configuration and keys where the machine looks for them.
func (w *world) fillStore(boot nodeconfig.Boot) {
	w.Helper()
	w.store[boot.ConfigBase+"/igconfig/control-plane/"+boot.InstanceGroupName+"/nodeupconfig.yaml"] = w.config
	for name, k := range authorities() {
		text, err := clusterstore.EncodeKeyset(k)
		if err != nil {
			w.Fatal(err)
		}
		w.store[boot.ConfigBase+"/pki/private/"+name+"/keyset.yaml"] = text
	}
	for _, name := range pki.TokenNames() {
		text, err := pki.EncodeSecret(pki.NewSecret("token-of-" + name))
		if err != nil {
			w.Fatal(err)
		}
		w.store[boot.ConfigBase+"/secrets/"+name] = text
	}
}

func (w *world) agent() *agent.Agent {
	a := &agent.Agent{
		Machine: w.machine, Store: w.store, Issuer: issuer(), Clock: w.clock, Version: "1.37.0", Patience: time.Nanosecond,
		Detect:   func(context.Context, *nodeconfig.Boot, *nodeconfig.Config) (node.Host, error) { return w.host, nil },
		Join:     func(*nodeconfig.Boot, func(error)) (agent.Joiner, error) { return w.joiner, nil },
		OnReport: func(r report.Report) { w.reports = append(w.reports, r) },
	}
	return a
}

func (w *world) converge() error { return w.agent().Converge(context.Background(), w.boot) }

func (w *world) preview() string {
	w.Helper()
	var b strings.Builder
	if err := w.agent().Preview(context.Background(), w.boot, &b); err != nil {
		w.Fatal(err)
	}
	return b.String()
}

func (w *world) lastReport() report.Report { return w.reports[len(w.reports)-1] }

// files records the files of the folder. Keys, certificates and digests, which differ on each
// run, are only described.
func (w *world) files() []txtar.File {
	w.Helper()
	var out []txtar.File
	err := filepath.WalkDir(w.root, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		path := strings.TrimPrefix(at, w.root)
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(at)
			out = append(out, txtar.File{Name: path + " -> " + target})
			return err
		}
		text := w.read(path)
		if strings.HasPrefix(path, "/var/cache/") || path == "/var/lib/kops/inventory.json" || path == "/var/lib/kops/nodeupconfig.yaml" {
			return nil
		}
		out = append(out, txtar.File{Name: fmt.Sprintf("%s %04o", path, info.Mode().Perm()), Data: []byte(mask(text))})
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	return out
}

var (
	pemBlock = regexp.MustCompile(`(?s)-----BEGIN ([A-Z ]+)-----.*?-----END [A-Z ]+-----\n`)
	data64   = regexp.MustCompile(`data: (LS0t\S+)`)
	reads    = regexp.MustCompile(`(?m)^Reads=.*$`)
	keyID    = regexp.MustCompile(`"\d{20,}"`)
	hash     = regexp.MustCompile(`"hash":"[^"]+"`)
	serial   = regexp.MustCompile(`(?m)(kops.k8s.io/certificate: |^Certificate=).*$`)
	trusts   = regexp.MustCompile(`(?m)(kops.k8s.io/trust: ).*$`)
)

func mask(text string) string {
	text = data64.ReplaceAllStringFunc(text, func(s string) string {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, "data: "))
		if err != nil {
			return s
		}
		return "data: " + strings.TrimSuffix(mask(string(raw)), "\n")
	})
	text = hash.ReplaceAllString(serial.ReplaceAllString(text, "${1}(serial)"), `"hash":"(of the configuration)"`)
	text = trusts.ReplaceAllString(text, "${1}(digest)")
	text = keyID.ReplaceAllString(reads.ReplaceAllString(text, "Reads=(digest)"), `"(key id)"`)
	return pemBlock.ReplaceAllStringFunc(text, func(s string) string {
		if kind := pemBlock.FindStringSubmatch(s)[1]; kind != "CERTIFICATE" {
			return "(" + strings.ToLower(kind) + ")\n"
		}
		c, err := pki.ParseCertificate([]byte(s))
		if err != nil {
			return "(broken certificate)\n"
		}
		if c.IsCA {
			return "(authority " + c.Subject.CommonName + ")\n"
		}
		names := slices.Clone(c.DNSNames)
		for _, ip := range c.IPAddresses {
			names = append(names, ip.String())
		}
		usage := map[bool]string{true: "client", false: "server"}[len(c.ExtKeyUsage) == 1 && c.ExtKeyUsage[0] == 2]
		return fmt.Sprintf("(%s certificate of %s, signed by %s, for %d days, names %v)\n", usage, c.Subject, c.Issuer.CommonName, int(c.NotAfter.Sub(now()).Hours()/24), names)
	})
}

func TestTheFilesOfAMachine(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatal(cases, err)
	}
	for _, file := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			w := newWorld(t, file)
			before := w.files()
			if err := w.converge(); err != nil {
				t.Fatal(err)
			}
			if r := w.lastReport(); !r.Done || r.Broken() != nil || r.Node != w.host.NodeName {
				t.Errorf("report:\n%s", r.String())
			}
			want, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := &txtar.Archive{Comment: want.Comment}
			for _, f := range want.Files {
				if strings.HasPrefix(f.Name, "in/") {
					got.Files = append(got.Files, f)
				}
			}
			for _, f := range w.files() {
				if !slices.ContainsFunc(before, func(b txtar.File) bool { return b.Name == f.Name && bytes.Equal(b.Data, f.Data) }) {
					got.Files = append(got.Files, f)
				}
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(txtar.Format(want)), string(txtar.Format(got))); d != "" {
				t.Errorf("the files differ (-want +got); -update writes them down\n%s", d)
			}
		})
	}
}
