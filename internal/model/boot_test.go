package model_test

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model"
	azure "kops.local/kops/internal/platform/azure/spec"
	digitalocean "kops.local/kops/internal/platform/digitalocean/spec"
	openstack "kops.local/kops/internal/platform/openstack/spec"
	"kops.local/kops/internal/spec/facts"
)

func ptr[T any](v T) *T { return &v }

// group returns a group of the input by its role.
func group(t *testing.T, in model.Input, role api.InstanceGroupRole) *api.InstanceGroup {
	t.Helper()
	for _, g := range in.Groups {
		if g.Spec.Role == role {
			return g
		}
	}
	t.Fatalf("no group of the role %s", role)
	return nil
}

const golden = "testdata/update_cluster/"

// script returns the known user data of a group.
func script(t *testing.T, in model.Input, g *api.InstanceGroup, host resource.Value) string {
	t.Helper()
	c, err := model.UserData(in, g, host)
	if err != nil {
		t.Fatal(err)
	}
	text, known := c.Value().Known()
	if !known {
		t.Fatalf("the user data depends on %s", c.Value())
	}
	return text
}

var heredoc = regexp.MustCompile(`(?s)<< '__EOF_KUBE_ENV'(.*?)\n(.*?\n)__EOF_KUBE_ENV\n`)

// bootConfig reads the boot configuration from a script.
func bootConfig(t *testing.T, text string) nodeconfig.Boot {
	t.Helper()
	m := heredoc.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no boot configuration in\n%s", text)
	}
	doc := []byte(m[2])
	if strings.Contains(m[1], "gzip -d") {
		packed, err := base64.StdEncoding.DecodeString(strings.TrimSpace(m[2]))
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		if doc, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	var c nodeconfig.Boot
	if err := yaml.UnmarshalStrict(doc, &c); err != nil {
		t.Fatalf("%v in\n%s", err, doc)
	}
	return c
}

func TestMachinesKnowTheHashOfTheirConfiguration(t *testing.T) {
	in := input(t, golden+"irsa")
	nodes, _, err := model.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	all := files(t, nodes)
	for _, g := range in.Groups {
		text, _ := all["nodeupconfig-"+g.Name].Content.Value().Known()
		sum := sha256.Sum256([]byte(text))
		want := base64.StdEncoding.EncodeToString(sum[:])
		if got := bootConfig(t, script(t, in, g, resource.Value{})).NodeupConfigHash; got != want {
			t.Errorf("%s: hash %s, want %s", g.Name, got, want)
		}
	}
}

func TestBootConfigurations(t *testing.T) {
	in := input(t, golden+"irsa")
	ca := in.Keysets["kubernetes-ca"].Bundle()
	cp := bootConfig(t, script(t, in, group(t, in, api.RoleControlPlane), resource.Value{}))
	if cp.ConfigBase != "s3://testingBucket/clusters.example.com/minimal.example.com" || cp.ConfigServer != nil || cp.CloudProvider != "aws" ||
		cp.ClusterName != "minimal.example.com" || cp.InstanceGroupName != "master-us-test-1a" || cp.InstanceGroupRole != "ControlPlane" {
		t.Errorf("control plane: %+v", cp)
	}
	node := bootConfig(t, script(t, in, group(t, in, api.RoleNode), resource.Value{}))
	if s := node.ConfigServer; node.ConfigBase != "" || s == nil || len(s.Servers) != 1 || s.Servers[0] != "https://kops-controller.internal.minimal.example.com:3988/" ||
		s.CACertificates != ca || s.TLSServerName != "" {
		t.Errorf("node: %+v", node)
	}
}

func TestWithoutDNSMachinesAskTheLoadBalancer(t *testing.T) {
	in := input(t, golden+"minimal-dns-none")
	g := group(t, in, api.RoleNode)
	if _, err := model.UserData(in, g, resource.Value{}); err == nil {
		t.Error("no address of the API, and no error")
	}
	address := bootConfig(t, script(t, in, g, resource.Lit("10.0.0.9")))
	if s := address.ConfigServer; s.Servers[0] != "https://10.0.0.9:3988/" || s.TLSServerName != "kops-controller.internal.minimal.example.com" || address.APIServerIPs[0] != "10.0.0.9" {
		t.Errorf("%+v %+v", address, s)
	}
	v6 := bootConfig(t, script(t, in, g, resource.Lit("fd00::9")))
	if v6.ConfigServer.Servers[0] != "https://[fd00::9]:3988/" {
		t.Errorf("%+v", v6.ConfigServer)
	}

	lb := resource.Address{Kind: "aws_lb", Name: "api.minimal.example.com"}
	c, err := model.UserData(in, g, resource.Out(lb, "address"))
	if err != nil {
		t.Fatal(err)
	}
	var refs []string
	c.Value().Refs(func(a resource.Address, attr string) { refs = append(refs, a.String()+"."+attr) })
	if len(refs) != 1 || refs[0] != "aws_lb/api.minimal.example.com.address" {
		t.Fatalf("refers to %v", refs)
	}
	text, known := c.Value().Resolve(func(resource.Address, string) (string, bool) { return "lb.example.com", true }).Known()
	if !known {
		t.Fatal("still not known")
	}
	if s := bootConfig(t, text); s.ConfigServer.Servers[0] != "https://lb.example.com:3988/" || s.APIServerIPs != nil {
		t.Errorf("%+v", s.ConfigServer)
	}
}

func TestUserDataCanBeCompressed(t *testing.T) {
	in := input(t, golden+"irsa")
	g := group(t, in, api.RoleNode)
	plain := bootConfig(t, script(t, in, g, resource.Value{}))
	g.Spec.CompressUserData = ptr(true)
	text := script(t, in, g, resource.Value{})
	if strings.Contains(text, "-----BEGIN CERTIFICATE-----") {
		t.Error("the configuration is not compressed")
	}
	if got := bootConfig(t, text); got.ConfigServer.CACertificates != plain.ConfigServer.CACertificates {
		t.Errorf("it holds %+v", got)
	}
	if again := script(t, in, g, resource.Value{}); again != text {
		t.Error("the same input gives another script")
	}
}

func TestUserDataOfSeveralParts(t *testing.T) {
	in := input(t, golden+"irsa")
	g := group(t, in, api.RoleNode)
	g.Spec.AdditionalUserData = []api.UserData{{Name: "a.sh", Type: "text/x-shellscript", Content: "#!/bin/sh\necho a"}, {Name: "b.txt", Type: "text/cloud-config", Content: "b: c\n"}}
	text := script(t, in, g, resource.Value{})
	if !strings.HasPrefix(text, "Content-Type: multipart/mixed; boundary=\"MIMEBOUNDARY\"\nMIME-Version: 1.0\n") || !strings.HasSuffix(text, "\n--MIMEBOUNDARY--\n") {
		t.Errorf("%.200s", text)
	}
	for _, part := range []string{`filename="nodeup.sh"`, `filename="a.sh"`, `filename="b.txt"`, "Content-Type: text/cloud-config", "\n\n#!/bin/sh\necho a\n"} {
		if strings.Count(text, part) != 1 {
			t.Errorf("%q occurs %d times", part, strings.Count(text, part))
		}
	}
	g.Spec.Role = api.RoleBastion
	if text := script(t, in, g, resource.Value{}); strings.Contains(text, "nodeup.sh") || !strings.Contains(text, `filename="a.sh"`) {
		t.Errorf("a bastion runs\n%s", text)
	}
	g.Spec.AdditionalUserData = nil
	if text := script(t, in, g, resource.Value{}); text != "" {
		t.Errorf("a bastion runs\n%s", text)
	}
}

func TestTheScriptRunsThePlatformsOwnCommand(t *testing.T) {
	in := input(t, golden+"irsa")
	const id, command = "/bin/systemd-machine-id-setup || echo \"The machine id could not be set up\" >&2\n", "systemctl restart systemd-journald\n"
	g := group(t, in, api.RoleNode)
	without := script(t, in, g, resource.Value{})
	own := *in.Traits
	own.Machines.BootCommand = digitalocean.Platform().Traits.Machines.BootCommand
	in.Traits = &own
	if got := script(t, in, g, resource.Value{}); !strings.Contains(without, id) || got != strings.Replace(without, id, id+command, 1) {
		t.Errorf("the script is\n%s", got)
	}
}

func TestTheScriptExportsWhatTheStoreNeedsAndNoSecret(t *testing.T) {
	in := input(t, golden+"irsa")
	in.Environment = map[string]string{"S3_ENDPOINT": "https://s3.e.com", "S3_REGION": "r", "S3_ACCESS_KEY_ID": "id", "S3_SECRET_ACCESS_KEY": "top secret", "HCLOUD_TOKEN": "token", "OTHER": "it's"}
	text := script(t, in, group(t, in, api.RoleControlPlane), resource.Value{})
	for _, line := range []string{"export AWS_REGION='us-test-1'\n", "export S3_ENDPOINT='https://s3.e.com'\n", "export S3_REGION='r'\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is missing", line)
		}
	}
	if strings.Contains(text, "top secret") || strings.Contains(text, "token'") || strings.Contains(text, "OTHER") {
		t.Error("it holds what it should not")
	}
	if node := script(t, in, group(t, in, api.RoleNode), resource.Value{}); strings.Contains(node, "S3_ENDPOINT") || !strings.Contains(node, "export AWS_REGION='us-test-1'\n") {
		t.Error("a node, which reads no store, knows its place")
	}
}

// Control planes learn where the keys of a non-Amazon S3 server are, and nodes nothing; if the
// platform has no place for the keys, the user is warned.
func TestKeysOfAnotherServerAreNamedAndNotShown(t *testing.T) {
	in := input(t, golden+"irsa")
	in.Environment = map[string]string{"S3_ENDPOINT": "https://s3.e.com"}
	cluster := *in.Cluster
	in.Cluster = &cluster
	for _, base := range []string{"gs://state/c", "file:///state/c"} {
		if cluster.Spec.ConfigStore.Base = base; !in.StoreKeys().IsZero() {
			t.Errorf("%s, which is on no server of S3, has keys at %s", base, in.StoreKeys())
		}
	}
	cluster.Spec.ConfigStore.Base = "s3://state/" + cluster.Name
	at := "aws:/kops/" + cluster.Name + "/s3-keys"
	if got := in.StoreKeys().String(); got != at {
		t.Errorf("the keys are at %q", got)
	}
	text := script(t, in, group(t, in, api.RoleControlPlane), resource.Value{})
	if !strings.Contains(text, "export S3_KEYS='"+at+"'\n") || !strings.Contains(text, "AmazonSSM.GetParameter") {
		t.Errorf("a control plane finds no keys:\n%s", text)
	}
	if node := script(t, in, group(t, in, api.RoleNode), resource.Value{}); strings.Contains(node, "S3_KEYS") || strings.Contains(node, "AmazonSSM") {
		t.Error("a node is told where the keys are")
	}
	of := func() (out []string) {
		_, findings, err := model.Build(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if f.Rule == "store-keys" {
				out = append(out, f.String())
			}
		}
		return out
	}
	if found := of(); len(found) > 0 {
		t.Errorf("it is told: %q", found)
	}
	traits := *in.Traits
	traits.Store.Keys = nil
	in.Traits = &traits
	for base, store := range map[string]map[string]string{"azureblob://account/state/c": azure.Platform().Traits.Store.Fetch, "swift://state/c": openstack.Platform().Traits.Store.Fetch} {
		cluster.Spec.ConfigStore.Base, traits.Store.Fetch = base, store
		if found := of(); len(found) > 0 {
			t.Errorf("%s is taken for a bucket of S3: %q", base, found)
		}
	}
	cluster.Spec.ConfigStore.Base, traits.Store.Fetch = "s3://state/"+cluster.Name, nil
	if found := of(); len(found) != 1 || !strings.Contains(found[0], "spec.configBase: is on the S3 server https://s3.e.com, whose keys kops does not put into user data") {
		t.Errorf("it is told: %q", found)
	}
	if text := script(t, in, group(t, in, api.RoleControlPlane), resource.Value{}); strings.Contains(text, "S3_KEYS=") || strings.Contains(text, "AmazonSSM") {
		t.Errorf("a control plane looks for keys:\n%s", text)
	}
}

// TestTheScriptRunsNodeup runs the boot script with this machine's bash, in a folder of its own: a
// user's repository first serves a wrong nodeup, and then a compressed or plain one, or a control
// plane serves one, and is identified only by its authority.
func TestTheScriptRunsNodeup(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "xz", "gzip", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%s is not installed", tool)
			}
			t.Skipf("THE BOOT SCRIPT IS NOT RUN: %s is not installed", tool)
		}
	}
	nodeup := "#!/bin/bash\nprintf '%s\\n' \"$@\" > \"$(dirname \"$0\")/ran\"\n"
	t.Run("a repository, packed", func(t *testing.T) {
		s := newSource(t, map[string]string{".xz": compressed(t, "xz", nodeup)})
		s.wrongResponses = 1
		s.run(t, nodeup, &api.AssetsSpec{FileRepository: &s.plain.URL})
		s.expectRequests(t, "GET .xz", "GET ", "GET .xz")
	})
	t.Run("a repository, as it is", func(t *testing.T) {
		s := newSource(t, map[string]string{"nodeup": nodeup})
		s.run(t, nodeup, &api.AssetsSpec{FileRepository: &s.plain.URL})
		s.expectRequests(t, "GET .xz", "GET nodeup")
	})
	t.Run("a control plane", func(t *testing.T) {
		s := newSource(t, map[string]string{".gz": compressed(t, "gzip", nodeup)})
		s.wrongResponses = 1
		s.run(t, nodeup, nil)
		s.expectRequests(t, "GET .gz", "GET .gz")
	})
	t.Run("a system of one image, without xz", func(t *testing.T) {
		s := newSource(t, map[string]string{".gz": compressed(t, "gzip", nodeup)})
		s.toolbox = t.TempDir() // the only folder that can be written to and run from
		s.tools = []string{"base64", "cat", "chmod", "curl", "cut", "dirname", "gzip", "head", "mkdir", "rm", "sed", "sha256sum", "uname"}
		s.run(t, nodeup, nil)
		s.expectRequests(t, "GET .gz")
	})
	t.Run("another's control plane", func(t *testing.T) {
		s := newSource(t, map[string]string{".gz": compressed(t, "gzip", nodeup)})
		s.authority, _ = selfSigned(t)
		out := s.fails(t, nodeup)
		for _, part := range []string{" s: control-plane authority: https://127.0.0.1:", "/nodeup.gz: curl: (60)", "No place gave a valid nodeup"} {
			if !strings.Contains(out, part) {
				t.Errorf("it does not say %q:\n%s", part, out)
			}
		}
		s.expectRequests(t)
	})
}

// source is what a boot script fetches from: a repository without TLS, and a control plane.
type source struct {
	plain          *httptest.Server
	tls            *httptest.Server
	authority      []byte // PEM, in the boot configuration
	files          map[string]string
	wrongResponses int // number of responses with other content
	requests       []string
	toolbox        string   // the folder of image systems; "" if there is none
	tools          []string // those that the machine has; if empty, all of this one
}

func newSource(t *testing.T, files map[string]string) *source {
	t.Helper()
	s := &source{files: files}
	s.plain = httptest.NewServer(s)
	s.tls = httptest.NewUnstartedServer(s)
	var own tls.Certificate
	s.authority, own = selfSigned(t)
	s.tls.TLS = &tls.Config{Certificates: []tls.Certificate{own}}
	s.tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.tls.StartTLS()
	t.Cleanup(s.plain.Close)
	t.Cleanup(s.tls.Close)
	return s
}

// selfSigned creates a self-signed certificate for kops-controller.
func selfSigned(t *testing.T) (pem []byte, own tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kops-controller"}, DNSNames: []string{"kops-controller.internal.minimal.example.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return encodePEM("CERTIFICATE", der), tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func compressed(t *testing.T, tool, text string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tool, "-c")
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for suffix, text := range s.files {
		if strings.HasSuffix(r.URL.Path, suffix) {
			s.requests = append(s.requests, r.Method+" "+suffix)
			if s.wrongResponses--; s.wrongResponses >= 0 {
				text = "something else"
			}
			_, _ = io.WriteString(w, text) // the client notices what is missing
			return
		}
	}
	s.requests = append(s.requests, r.Method+" "+path.Ext(r.URL.Path))
	http.NotFound(w, r)
}

func (s *source) expectRequests(t *testing.T, asked ...string) {
	t.Helper()
	if d := cmp.Diff(asked, s.requests); d != "" {
		t.Errorf("asked for (-want +got):\n%s", d)
	}
}

// script returns the boot script of a worker, changed so that it runs here.
func (s *source) script(t *testing.T, dir, nodeup string, from *api.AssetsSpec) string {
	t.Helper()
	in := input(t, golden+"minimal-dns-none")
	sum := sha256.Sum256([]byte(nodeup))
	in.Facts = &facts.Facts{Clouds: in.Facts.Clouds, FileHashes: map[string]string{"*": hex.EncodeToString(sum[:])}}
	in.Cluster.Spec.Assets = from
	if from == nil {
		nodeups := map[download.Arch]programs.File{}
		for _, a := range download.Arches() {
			nodeups[a] = programs.File{Path: "linux/" + string(a) + "/nodeup.gz", SHA256: strings.Repeat("1", 64), Program: hex.EncodeToString(sum[:])}
		}
		in.Own.Programs = &programs.Index{Nodeup: nodeups}
	}
	text := script(t, in, group(t, in, api.RoleNode), resource.Lit("127.0.0.1"))
	_, port, err := net.SplitHostPort(s.tls.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conf := regexp.MustCompile(`(?s)    -----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----\n`)
	text = conf.ReplaceAllString(text, "    "+strings.ReplaceAll(strings.TrimSpace(string(s.authority)), "\n", "\n    ")+"\n")
	for old, with := range map[string]string{
		"127.0.0.1:3988/": "127.0.0.1:" + port + "/", "INSTALL_DIR=/opt/kops": "INSTALL_DIR=" + dir, "/var/lib/toolbox": orDefault(s.toolbox, "/nowhere"),
		"/bin/systemd-machine-id-setup": "true", "sysctl -w": "true", "sleep ": ": ",
	} {
		if !strings.Contains(text, old) {
			t.Fatalf("the script has no %q", old)
		}
		text = strings.ReplaceAll(text, old, with)
	}
	return text
}

// run runs the script to its end, and checks nodeup's input.
func (s *source) run(t *testing.T, nodeup string, from *api.AssetsSpec) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "bash")
	cmd.Stdin = strings.NewReader(s.script(t, dir, nodeup, from))
	cmd.Env = s.environment(t)
	if s.toolbox != "" {
		dir = filepath.Join(s.toolbox, "kops")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ran, err := os.ReadFile(filepath.Join(dir, "bin", "ran"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "--install-systemd-unit\n--conf=" + dir + "/conf/kube_env.yaml\n--v=8\n"; string(ran) != want {
		t.Errorf("nodeup ran with\n%s", ran)
	}
	conf, err := os.ReadFile(filepath.Join(dir, "conf", "kube_env.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c nodeconfig.Boot
	if err := yaml.UnmarshalStrict(conf, &c); err != nil || !strings.HasPrefix(c.InstanceGroupName, "nodes") {
		t.Errorf("configuration %s: %v", conf, err)
	}
}

// environment returns an environment with only the machine's tools.
func (s *source) environment(t *testing.T) []string {
	t.Helper()
	if len(s.tools) == 0 {
		return nil
	}
	dir := t.TempDir()
	for _, tool := range append(s.tools, "bash") {
		at, err := exec.LookPath(tool)
		if err == nil {
			err = os.Symlink(at, filepath.Join(dir, tool))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return []string{"PATH=" + dir}
}

func orDefault(given, usual string) string {
	if given != "" {
		return given
	}
	return usual
}

// fails runs the script until it waits before another attempt, and returns its output.
func (s *source) fails(t *testing.T, nodeup string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash")
	cmd.Stdin = strings.NewReader(strings.Replace(s.script(t, t.TempDir(), nodeup, nil), ": \"${wait}\"", "exit 7", 1))
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}

// Systemd reads the proxy, even if its own file is in /usr and there was none in /etc.
func TestTheProxyIsWrittenWhereSystemdReadsIt(t *testing.T) {
	in := input(t, golden+"irsa")
	in.Cluster.Spec.Networking.EgressProxy = &api.EgressProxySpec{HTTPProxy: api.HTTPProxy{Host: "proxy.e.com", Port: 3128}, Excludes: "127.0.0.1"}
	text := script(t, in, group(t, in, api.RoleControlPlane), resource.Value{})
	_, text, found := strings.Cut(text, "# the way out")
	text, _, end := strings.Cut(text, "# larger buffers")
	if !found || !end {
		t.Fatal("the script does not set a proxy")
	}
	for _, before := range []string{"", "[Manager]\nLogLevel=info\n"} {
		etc := t.TempDir()
		file := filepath.Join(etc, "systemd", "system.conf")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if before != "" {
			if err := os.WriteFile(file, []byte(before), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "bash")
		cmd.Stdin = strings.NewReader("set -o errexit\n#" + strings.NewReplacer("/etc/", etc+"/", "systemctl", "true").Replace(text))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		got, err := os.ReadFile(file)
		want := orDefault(before, "[Manager]\n") + `DefaultEnvironment="http_proxy=http://proxy.e.com:3128" "https_proxy=http://proxy.e.com:3128" "no_proxy=127.0.0.1" "NO_PROXY=127.0.0.1"` + "\n"
		if err != nil || string(got) != want {
			t.Errorf("%v %s, want %s", err, got, want)
		}
	}
}

func TestScriptsAreBash(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("bash is not installed")
		}
		t.Skip("THE BOOT SCRIPT IS NOT CHECKED: bash is not installed")
	}
	in := input(t, golden+"irsa")
	in.Cluster.Spec.Networking.EgressProxy = &api.EgressProxySpec{HTTPProxy: api.HTTPProxy{Host: "proxy.e.com", Port: 3128}, Excludes: "127.0.0.1,it's"}
	g := group(t, in, api.RoleControlPlane)
	for _, compressed := range []bool{false, true} {
		g.Spec.CompressUserData = &compressed
		text := script(t, in, g, resource.Value{})
		for _, part := range []string{"export http_proxy='http://proxy.e.com:3128'", `export no_proxy='127.0.0.1,it'\''s'`} {
			if !strings.Contains(text, part) {
				t.Errorf("%s is missing", part)
			}
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-n")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
