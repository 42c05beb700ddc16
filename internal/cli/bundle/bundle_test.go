package bundle_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/cli/bundle"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/contract/download"
	kept "kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/spec/versions"
)

const nodeup = "https://kops.internal/binaries/kops/1.37.0/linux/amd64/nodeup"

// world is a user with a bundle of one file, and some programs of their own.
type world struct {
	*testing.T
	dir, own string
}

func newWorld(t *testing.T) *world {
	w := &world{t, filepath.Join(t.TempDir(), "bundle"), t.TempDir()}
	if err := os.WriteFile(filepath.Join(w.own, "nodeup"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := kept.Create(t.Context(), kept.Options{Dir: w.dir, OwnPrograms: w.own, Arches: []download.Arch{download.AMD64}, Now: time.Unix(1e9, 0),
		Want: kept.Want{Kops: "1.37.0", Kubernetes: "1.36.3", Files: map[string]string{nodeup: ""}}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// run runs `kops bundle` and returns its output; messages are written to told.
func (w *world) run(ctx context.Context, told io.Writer, args ...string) (string, error) {
	var out bytes.Buffer
	env := map[string]string{"KOPS_BUNDLE": w.dir}
	app := shell.New(shell.System{In: &bytes.Buffer{}, Out: &out, Err: told, Env: func(k string) string { return env[k] },
		Cache: w.TempDir(), Program: filepath.Join(w.own, "kops"), Now: time.Now, Version: "1.37.0"})
	c := bundle.Command(app)
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(told)
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.ExecuteContext(ctx)
	return out.String(), err
}

// make uses the version, so as not to repeat what the channel recommends.
func TestVersion(t *testing.T) {
	out, err := newWorld(t).run(t.Context(), io.Discard, "version")
	ch, _ := versions.Embedded(versions.Stable)
	if want := ch.NewClusterVersion("1.37.0") + "\n"; err != nil || out != want {
		t.Errorf("%q, %v; not %q", out, err, want)
	}
}

func TestAddonsAreListedInHelpAndCompleted(t *testing.T) {
	for _, args := range [][]string{{"create", "--help"}, {"__complete", "create", "--addons", ""}} {
		out, err := newWorld(t).run(t.Context(), io.Discard, args...)
		for _, name := range kept.Addons() {
			if err != nil || !strings.Contains(out, name) {
				t.Errorf("%v: no %s, %v:\n%s", args, name, err, out)
			}
		}
	}
}

// TestAListIsCompletedValueByValue: completions begin with what was typed, without what was given.
func TestAListIsCompletedValueByValue(t *testing.T) {
	out, err := newWorld(t).run(t.Context(), io.Discard, "__complete", "create", "--addons", "cert-manager,")
	if err != nil || !strings.Contains(out, "cert-manager,metrics-server\n") || strings.Contains(out, "cert-manager,cert-manager") {
		t.Errorf("%v:\n%s", err, out)
	}
}

func TestListAndVerify(t *testing.T) {
	w := newWorld(t)
	for command, shows := range map[string]string{
		"list": nodeup, "list -o yaml": "kubernetes:\n  - 1.36.3", "verify": "is unchanged: 1 files and 0 images",
		"list --dir " + w.dir: "built",
	} {
		out, err := w.run(t.Context(), io.Discard, strings.Fields(command)...)
		if err != nil || !strings.Contains(out, shows) {
			t.Errorf("%s: %q, %v", command, out, err)
		}
	}
	out, err := w.run(t.Context(), io.Discard, "list", "-o", "json")
	var listed struct {
		Files []struct{ Name, Digest string }
	}
	if err != nil || json.Unmarshal([]byte(out), &listed) != nil || len(listed.Files) != 1 || !strings.HasPrefix(listed.Files[0].Digest, "sha256:") {
		t.Errorf("%q, %v", out, err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "files/binaries/kops/1.37.0/linux/amd64/nodeup"), []byte("#!/bin/no\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := w.run(t.Context(), io.Discard, "verify"); err == nil || !strings.Contains(err.Error(), nodeup+": ") {
		t.Errorf("a changed file: %v", err)
	}
}

func TestCreateReportsAllMissingItems(t *testing.T) {
	w := newWorld(t)
	_, err := w.run(t.Context(), io.Discard, "create", "--offline", "--kubernetes-version", "1.36.3", "--arch", "amd64", "--add", "quay.io/a/b:1", "--add", "https://example.com/x")
	for _, text := range []string{"kubernetes-v1.36.3-amd64/bin/kubelet", "registry.k8s.io/kube-proxy:v1.36.3", "quay.io/a/b:1", "https://example.com/x",
		"kops-controller is not in " + w.own, "make bundle"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v does not say %q", err, text)
		}
	}
	for says, args := range map[string][]string{
		"unknown architecture": {"create", "--arch", "riscv64"},
		"not a version":        {"create", "--kubernetes-version", "newest"},
		"no bundle":            {"list", "--dir", t.TempDir()},
		"output format":        {"list", "-o", "xml"},
		"takes no arguments":   {"verify", "this"},
	} {
		if _, err := w.run(t.Context(), io.Discard, args...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", args, err, says)
		}
	}
}

func TestServe(t *testing.T) {
	w := newWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	reading, told := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := w.run(ctx, told, "serve", "--listen", "127.0.0.1:0")
		told.CloseWithError(io.EOF)
		ended <- err
	}()
	address, lines := "", bufio.NewScanner(reading)
	for address == "" && lines.Scan() {
		_, address, _ = strings.Cut(lines.Text(), " on ")
	}
	if address == "" {
		t.Fatalf("it ends with %v before it listens", lines.Err())
	}
	go io.Copy(io.Discard, reading) //nolint:errcheck // it ends with the command
	resp, err := http.Get(address + "/binaries/kops/1.37.0/linux/amd64/nodeup")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "#!/bin/sh\n" {
		t.Errorf("%q, %v", body, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v", err)
	}
}

func TestServeRefusesABundleThatIsNotWhatItsIndexSays(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.dir, "files/binaries/kops/1.37.0/linux/amd64/nodeup")
	if err := os.WriteFile(file, []byte("#!/bin/no\n"), 0o755); err != nil { // of the same size
		t.Fatal(err)
	}
	if _, err := w.run(t.Context(), io.Discard, "serve", "--listen", "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "nodeup: "+file+" has changed") {
		t.Errorf("a changed file: %v", err)
	}
}

func TestExtract(t *testing.T) {
	w := newWorld(t)
	to, other := filepath.Join(t.TempDir(), "nodeup"), filepath.Join(t.TempDir(), "other")
	if err := errors.Join(os.WriteFile(other, nil, 0o644), os.Symlink(other, to+".new")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.run(t.Context(), io.Discard, "extract", "linux/amd64/nodeup", "--to", to); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(other); err != nil || len(text) > 0 {
		t.Errorf("a file behind a link beside it holds %q, %v", text, err)
	}
	text, err := os.ReadFile(to)
	info, serr := os.Stat(to)
	if err != nil || serr != nil || string(text) != "#!/bin/sh\n" || info.Mode().Perm() != 0o755 {
		t.Errorf("%q %v, %v %v", text, info.Mode(), err, serr)
	}
	if _, err := w.run(t.Context(), io.Discard, "extract", "kubectl"); err == nil || !strings.Contains(err.Error(), "no file of the bundle "+w.dir+" ends in kubectl") {
		t.Errorf("a file that the bundle lacks: %v", err)
	}
	kept := filepath.Join(w.dir, "files/binaries/kops/1.37.0/linux/amd64/nodeup")
	if err := os.WriteFile(kept, []byte("#!/bin/no\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := w.run(t.Context(), io.Discard, "extract", "nodeup", "--to", to); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("a changed file: %v", err)
	}
	if text, err = os.ReadFile(to); err != nil || string(text) != "#!/bin/sh\n" {
		t.Errorf("after a changed file was refused: %q %v", text, err)
	}
	if left, err := os.ReadDir(filepath.Dir(to)); err != nil || len(left) != 2 { // with the link
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestPush(t *testing.T) {
	w := newWorld(t)
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	place := "oci://" + strings.TrimPrefix(s.URL, "http://") + "/kops"
	out, err := w.run(t.Context(), io.Discard, "push", place)
	if err != nil || !strings.Contains(out, "Sent 1 to "+place) || !strings.Contains(out, "--set spec.assets.containerRegistry="+strings.TrimPrefix(place, "oci://")) {
		t.Errorf("%q, %v", out, err)
	}
	out, err = w.run(t.Context(), io.Discard, "push", place, "-o", "json")
	var done struct {
		Sent, Kept int
		Bytes      int64
		Spec       map[string]string
	}
	if err != nil || json.Unmarshal([]byte(out), &done) != nil || done.Sent != 0 || done.Kept != 1 || done.Bytes != 0 || done.Spec["spec.assets.containerRegistry"] == "" {
		t.Errorf("the second time: %q, %v", out, err)
	}
	folder := t.TempDir()
	out, err = w.run(t.Context(), io.Discard, "push", folder)
	if err != nil || !strings.Contains(out, "kops knows no web server for this folder") {
		t.Errorf("%q, %v", out, err)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "binaries/kops/1.37.0/linux/amd64/nodeup")); err != nil || string(text) != "#!/bin/sh\n" {
		t.Errorf("%q, %v", text, err)
	}
	out, err = w.run(t.Context(), io.Discard, "push", folder)
	if err != nil || !strings.Contains(out, "already has all 1; nothing was sent") {
		t.Errorf("%q, %v", out, err)
	}
	for says, args := range map[string][]string{
		"name one place": {"push"}, "ftp://": {"push", "ftp://a/b"}, "output format": {"push", folder, "-o", "xml"},
	} {
		if _, err := w.run(t.Context(), io.Discard, args...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", args, err, says)
		}
	}
}

func TestDiffOfTwoBundles(t *testing.T) {
	w := newWorld(t)
	out, err := w.run(t.Context(), io.Discard, "diff", w.dir)
	if err != nil || !strings.Contains(out, "has no differences") {
		t.Errorf("%q, %v", out, err)
	}
	other := newWorld(t)
	if err := os.WriteFile(filepath.Join(other.own, "nodeup"), []byte("#!/bin/other\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = kept.Create(t.Context(), kept.Options{Dir: other.dir, OwnPrograms: other.own, Arches: []download.Arch{download.AMD64}, Now: time.Unix(1e9, 0),
		Want: kept.Want{Files: map[string]string{nodeup: ""}}})
	if err != nil {
		t.Fatal(err)
	}
	out, err = w.run(t.Context(), io.Discard, "diff", other.dir)
	if err != shell.Pending || !strings.Contains(out, "it is sha256:") {
		t.Errorf("%q, %v", out, err)
	}
	out, err = w.run(t.Context(), io.Discard, "diff", other.dir, "-o", "json")
	var all []kept.Difference
	if err != shell.Pending || json.Unmarshal([]byte(out), &all) != nil || len(all) != 1 || all[0].Name != nodeup || all[0].State != kept.Other {
		t.Errorf("%q, %v", out, err)
	}
	if _, err = w.run(t.Context(), io.Discard, "diff"); err == nil || !strings.Contains(err.Error(), "name one folder") {
		t.Errorf("without anything to compare with: %v", err)
	}
}

func TestAdd(t *testing.T) {
	w := newWorld(t)
	host := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(host.Close)
	image := strings.TrimPrefix(host.URL, "http://") + "/team/app:1"
	img, err := random.Image(100, 1)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "arm64"
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(image)
	if err == nil {
		err = remote.Write(tag, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.run(t.Context(), io.Discard, "add", image, "--arch", "arm64")
	if err != nil || !strings.Contains(out, "holds "+image+": sha256:") {
		t.Errorf("%q, %v", out, err)
	}
	archive := filepath.Join(t.TempDir(), "app.tar")
	if tag, err = name.NewTag("app:dev1"); err == nil {
		err = tarball.WriteToFile(archive, tag, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err = w.run(t.Context(), io.Discard, "add", "--from", archive); err != nil || !strings.Contains(out, "holds app:dev1: sha256:") {
		t.Errorf("%q, %v", out, err)
	}
	for says, args := range map[string][]string{
		"name an image": {"add"}, "has no image app:2; it has [app:dev1]": {"add", "app:2", "--from", archive}, "the bundle is unchanged": {"add", strings.Replace(image, "app", "none", 1)},
	} {
		if _, err := w.run(t.Context(), io.Discard, args...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", args, err, says)
		}
	}
}

func TestSign(t *testing.T) {
	w := newWorld(t)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	key, public := filepath.Join(t.TempDir(), "key.pem"), filepath.Join(t.TempDir(), "key.pub")
	if err := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := w.run(t.Context(), io.Discard, "sign", "--key", key)
	var spec struct {
		Spec struct {
			Assets struct{ TrustedKeys []string }
		}
	}
	_, text, _ := strings.Cut(out, "\n\n")
	if err != nil || yaml.Unmarshal([]byte(text), &spec) != nil || len(spec.Spec.Assets.TrustedKeys) != 1 {
		t.Fatalf("%q, %v", out, err)
	}
	if err := os.WriteFile(public, []byte(spec.Spec.Assets.TrustedKeys[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := w.run(t.Context(), io.Discard, "verify", "--key", public); err != nil || !strings.Contains(out, "is unchanged") {
		t.Errorf("%q, %v", out, err)
	}
	for says, args := range map[string][]string{
		"not a private key": {"sign", "--key", public}, "--key is required": {"sign"}, "not one public key": {"verify", "--key", key},
	} {
		if _, err := w.run(t.Context(), io.Discard, args...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", args, err, says)
		}
	}
	// a change of the bundle removes the signature
	if _, err := w.run(t.Context(), io.Discard, "verify", "--key", public); err != nil {
		t.Error(err)
	}
	if _, err := kept.Create(t.Context(), kept.Options{Dir: w.dir, OwnPrograms: w.own, Now: time.Unix(1e9, 0), Arches: []download.Arch{download.AMD64}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.run(t.Context(), io.Discard, "verify", "--key", public); err == nil || !strings.Contains(err.Error(), "is not signed, or has changed since it was") {
		t.Errorf("after a change: %v", err)
	}
	if _, err := w.run(t.Context(), io.Discard, "serve", "--listen", "127.0.0.1:0", "--key", public); err == nil || !strings.Contains(err.Error(), "is not signed") {
		t.Errorf("served without a signature: %v", err)
	}
}
