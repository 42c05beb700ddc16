package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"kops.local/kops/internal/test/servers"
)

// release is a folder written by `make release`.
type release struct {
	*testing.T
	dir, version string
}

func newRelease(t *testing.T) release {
	t.Helper()
	r := release{t, os.Getenv("KOPS_RELEASE"), os.Getenv("VERSION")}
	if r.dir == "" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: make release release-test makes a release and installs it")
	}
	return r
}

// path returns the path of a file of the release, whose name continues after kops-VERSION.
func (r release) path(suffix string) string {
	return filepath.Join(r.dir, "kops-"+r.version+suffix)
}

// pack returns the path of a package for this machine.
func (r release) pack(format string) string { return r.path("-linux-" + runtime.GOARCH + "." + format) }

// run runs a program that must succeed, and returns its standard output, without its warnings.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.Command(name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, &stderr)
	}
	return string(out)
}

// requireProgram returns the path of a program that the test runs as root.
func requireProgram(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		servers.SkipMissing(t, program+" is not installed")
	}
	if os.Getuid() != 0 {
		servers.SkipMissing(t, "only root can install packages into a folder")
	}
	return path
}

// checkWorks checks kops below a root folder: it runs, the programs for machines are next to it,
// and bash completes its commands.
func (r release) checkWorks(root string) {
	r.Helper()
	link := filepath.Join(root, "usr/bin/kops")
	if out := run(r.T, link, "version"); !strings.Contains(out, r.version) {
		r.Errorf("the version is %q", out)
	}
	real, err := filepath.EvalSymlinks(link)
	if err != nil {
		r.Fatal(err)
	}
	got, want := digest(r.T, filepath.Join(filepath.Dir(real), "kops-programs-"+r.version+".tar")), digest(r.T, filepath.Join(r.dir, "kops-programs-"+r.version+".tar"))
	if got != want {
		r.Errorf("the programs beside kops are %s, and those of the release %s", got, want)
	}
}

// checkRehearses checks that the program of rehearsals is next to kops.
func (r release) checkRehearses(root string) {
	r.Helper()
	if out := run(r.T, filepath.Join(root, "usr/lib/kops/kops-rehearse"), "--version"); out != r.version+"\n" {
		r.Errorf("the version of kops-rehearse is %q", out)
	}
}

// checkCompletion checks that the shell completion of a package completes a command.
func (r release) checkCompletion(root string) {
	r.Helper()
	script := `_get_comp_words_by_ref() { cur=valida prev=kops words=(kops valida) cword=1; }; __ltrim_colon_completions() { :; }; compopt() { :; }
PATH=` + root + `/usr/bin:$PATH; . ` + root + `/usr/share/bash-completion/completions/kops
COMP_TYPE=9 COMP_LINE='kops valida' COMP_WORDS=(kops valida) COMP_CWORD=1; __start_kops; echo "${COMPREPLY[@]}"`
	if out := run(r.T, "bash", "-c", script); !strings.HasPrefix(strings.TrimSpace(out), "validate") {
		r.Errorf("bash completes valida to %q", out)
	}
	for _, file := range []string{"fish/vendor_completions.d/kops.fish", "doc/kops/copyright", "doc/kops/NOTICE"} {
		if info, err := os.Stat(filepath.Join(root, "usr/share", file)); err != nil || info.Size() == 0 {
			r.Errorf("%s is empty: %v", file, err)
		}
	}
}

func digest(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func TestTheDebInstalls(t *testing.T) {
	r := newRelease(t)
	requireProgram(t, "dpkg")
	root := t.TempDir()
	for _, dir := range []string{"info", "updates"} {
		if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, "dpkg", "--root="+root, "--log=/dev/null", "-i", r.pack("deb"))
	if out := run(t, "dpkg", "--root="+root, "-s", "kops"); !strings.Contains(out, "Status: install ok installed") {
		t.Error(out)
	}
	r.checkWorks(root)
	r.checkRehearses(root)
	r.checkCompletion(root)
	run(t, "dpkg", "--root="+root, "--log=/dev/null", "-P", "kops")
	if _, err := os.Lstat(filepath.Join(root, "usr/bin/kops")); err == nil {
		t.Error("a removed package leaves kops behind")
	}
}

func TestTheRPMInstalls(t *testing.T) {
	r := newRelease(t)
	requireProgram(t, "rpm")
	if out := run(t, "rpm", "-K", "--nosignature", r.pack("rpm")); !strings.Contains(out, "OK") {
		t.Error(out)
	}
	if out := run(t, "rpm", "-qp", "--requires", r.pack("rpm")); strings.Contains(out, "/bin/") {
		t.Errorf("it requires %s", out)
	}
	root := t.TempDir()
	run(t, "rpm", "--root", root, "--initdb")
	run(t, "rpm", "--root", root, "--nodeps", "--force-debian", "-i", r.pack("rpm"))
	r.checkWorks(root)
	r.checkRehearses(root)
	r.checkCompletion(root)
}

func TestTheImageRuns(t *testing.T) {
	r := newRelease(t)
	env, chroot := requireProgram(t, "env"), requireProgram(t, "chroot")
	requireProgram(t, "unshare")
	at := t.TempDir()
	untar(t, r.path("-image.tar"), at, false)
	blob := func(digest string) string { return filepath.Join(at, "blobs", strings.Replace(digest, ":", "/", 1)) }
	var top, index struct{ Manifests []descriptor }
	read(t, filepath.Join(at, "index.json"), &top)
	read(t, blob(top.Manifests[0].Digest), &index)
	mine := slices.IndexFunc(index.Manifests, func(d descriptor) bool { return d.Platform.Architecture == runtime.GOARCH })
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	read(t, blob(index.Manifests[mine].Digest), &manifest)
	var c struct {
		Config struct {
			User            string
			Entrypoint, Env []string
		}
	}
	read(t, blob(manifest.Config.Digest), &c)
	root := t.TempDir()
	for _, l := range manifest.Layers {
		if got := digest(t, blob(l.Digest)); "sha256:"+got != l.Digest {
			t.Errorf("the layer %s has the digest %s", l.Digest, got)
		}
		untar(t, blob(l.Digest), root, true)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if c.Config.User != "65532:65532" || len(c.Config.Entrypoint) != 1 {
		t.Fatalf("the image runs %v as %q", c.Config.Entrypoint, c.Config.User)
	}
	if err := os.Mkdir(filepath.Join(root, "proc"), 0o555); err != nil {
		t.Fatal(err)
	}
	in := func(args ...string) string { // with /proc, as every container runtime mounts it
		const start = `mount -t proc proc "$0/proc" && exec "$@"`
		return run(t, "unshare", slices.Concat([]string{"--mount", "sh", "-c", start, root, env, "-i"}, c.Config.Env, []string{chroot, "--userspec=" + c.Config.User, root}, c.Config.Entrypoint, args)...)
	}
	if out := in("version"); !strings.Contains(out, r.version) {
		t.Errorf("the version is %q", out)
	}
	state := "--state=file:///home/kops/state"
	text := in("create", "cluster", state, "--cloud", "metal", "--zones", "main", "--networking", "kubenet", "--dry-run", "-o", "yaml", "m.example.com")
	if err := os.WriteFile(filepath.Join(root, "home/kops/cluster.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	in("create", "-f", "/home/kops/cluster.yaml", state)
	if _, err := os.Stat(filepath.Join(root, "home/kops/state/m.example.com")); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt")); bytes.Count(data, []byte("BEGIN CERTIFICATE")) < 50 {
		t.Errorf("the image knows few certificate authorities: %v", err)
	}
	r.checkWorks(root)
}

type descriptor struct {
	Digest   string
	Platform struct{ Architecture string }
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// untar unpacks an archive as tar does, with its owners and modes.
func untar(t *testing.T, file, to string, compressed bool) {
	t.Helper()
	flags := "-xpf"
	if compressed {
		flags = "-xpzf"
	}
	run(t, "tar", "-C", to, flags, file)
}

var (
	formulaURL = regexp.MustCompile(`url "([^"]+)"[^\n]*\n\s+sha256 "([0-9a-f]{64})"`)
	linuxURL   = regexp.MustCompile(`kops-[^/]*-linux-[^/]*\.tar\.gz$`)
)

// TestTheFormulaNamesTheRelease reads the formula: each URL is below the URL of the releases,
// and each digest is the digest of the file at the end of its URL.
func TestTheFormulaNamesTheRelease(t *testing.T) {
	r := newRelease(t)
	base := os.Getenv("RELEASES")
	if base == "" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: RELEASES is not set, so the release has no formula")
	}
	file := filepath.Join(r.dir, "kops.rb")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	forLinux := 0
	found := formulaURL.FindAllStringSubmatch(string(text), -1)
	for _, m := range found {
		name := strings.TrimPrefix(m[1], base+"/v"+r.version+"/")
		if want := digest(t, filepath.Join(r.dir, filepath.Base(name))); m[2] != want {
			t.Errorf("%s has the digest %s, and the file %s", name, m[2], want)
		}
		if linuxURL.MatchString(name) {
			forLinux++
			checkArchive(t, filepath.Join(r.dir, name))
		}
	}
	if archives, _ := filepath.Glob(r.path("-*.tar.gz")); forLinux == 0 || len(found) != len(slices.DeleteFunc(archives, isWindows))+1 {
		t.Errorf("the formula has %d URLs", len(found))
	}
	if _, err := exec.LookPath("ruby"); err != nil {
		t.Log("SKIPPED: ruby is not installed, so the syntax of the formula was not checked")
		return
	}
	run(t, "ruby", "-c", file)
}

func isWindows(path string) bool { return strings.Contains(path, "-windows-") }

// checkArchive checks that an archive has one folder with kops in it, as the formula installs it.
func checkArchive(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for entries := tar.NewReader(z); ; {
		h, err := entries.Next()
		if err == io.EOF {
			t.Errorf("%s has no kops in its folder", file)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == strings.TrimSuffix(filepath.Base(file), ".tar.gz")+"/kops" {
			return
		}
	}
}

// TestPackagesAreReproducible creates the packages from the same archives a second time.
func TestPackagesAreReproducible(t *testing.T) {
	r := newRelease(t)
	again := t.TempDir()
	run(t, "../../tools/packages", r.dir, again)
	made, err := os.ReadDir(again)
	if err != nil || len(made) < 3 {
		t.Fatalf("only %d packages were made: %v", len(made), err)
	}
	for _, f := range made {
		if digest(t, filepath.Join(again, f.Name())) != digest(t, filepath.Join(r.dir, f.Name())) {
			t.Errorf("a second %s differs from the first", f.Name())
		}
	}
}
