package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	for _, c := range []struct{ only, want, err string }{
		{only: "", want: "cni-plugins-v1.9.1 runc-v1.4.3 iptables etcd-v3.5.31 etcd-v3.6.12 etcd-v3.7.0 agnhost containerd-v2.3.4 coredns-v1.14.3 kubernetes-v1.36.3"},
		{only: "coredns,etcd", want: "etcd-v3.5.31 etcd-v3.6.12 etcd-v3.7.0 coredns-v1.14.3"},
		{only: "etcd-v3.7.0", want: "etcd-v3.7.0"},
		{only: "etcd,bird", err: `no source "bird"`},
	} {
		for _, version := range []string{"1.36.3", "v1.36.3"} {
			got, err := choose(sources(version), c.only)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), "containerd") {
					t.Errorf("%q: %v, want %q and what there is", c.only, err, c.err)
				}
				continue
			}
			if text := strings.Trim(fmt.Sprint(got), "[]"); err != nil || text != c.want {
				t.Errorf("%q: %v, %v, want %v", c.only, text, err, c.want)
			}
		}
	}
}

func TestSourcesForACloudANetworkAndAddons(t *testing.T) {
	for _, c := range []struct{ cloud, network, addons, want, err string }{
		{"", "", "", "cni-plugins-v1.9.1", ""},
		{"aws", "", "", "ecr-credential-provider-v1.31.7 cloud-provider-aws-v1.36.1 cni-plugins-v1.9.1", ""},
		{"gce", "", "", "auth-provider-gcp-v35.0.0 cloud-provider-gcp-v35.0.0 cni-plugins-v1.9.1", ""},
		{"hetzner", "", "", "cloud-provider-hcloud-v1.31.0 cni-plugins-v1.9.1", ""},
		{"", "cilium", "", "cilium-v1.18.12 cni-plugins-v1.9.1", ""},
		{"aws", "flannel", "", "flannel-cni-plugin-v1.9.1-flannel3 flannel-v0.28.9 ecr-credential-provider-v1.31.7", ""},
		{"", "kube-router", "", "kube-router-v2.11.1 cni-plugins-v1.9.1", ""},
		{"moon", "", "", "", `the cloud "moon"; supported clouds: [aws gce hetzner]`},
		{"", "wires", "", "", `the pod network "wires"; supported pod networks: [cilium flannel kube-router]`},
		{"", "", "metrics-server", "metrics-server-v0.8.0 cni-plugins-v1.9.1", ""},
		{"", "flannel", "local-path,cert-manager", "cert-manager-v1.19.5 local-path-provisioner-v0.0.30 flannel-cni-plugin-v1.9.1-flannel3", ""},
		{"", "", "metrics-server,ingress", "", `the add-on "ingress"; supported add-ons: [cert-manager external-dns `},
	} {
		got, err := sourcesFor("1.36.3", c.cloud, c.network, c.addons)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", c.cloud, err, c.err)
			}
			continue
		}
		if text := strings.Trim(fmt.Sprint(got), "[]"); err != nil || !strings.HasPrefix(text, c.want) {
			t.Errorf("%q: %v, %v, want %v first", c.cloud, text, err, c.want)
		}
	}
}

// TestANearVersionIsBuiltInPlace: a version that does not exist as a module is reported
// prominently.
func TestANearVersionIsBuiltInPlace(t *testing.T) {
	served := t.TempDir()
	t.Setenv("GOPROXY", "file://"+served)
	t.Setenv("GONOSUMDB", "*")
	t.Setenv("GOFLAGS", "-modcacherw")
	t.Setenv("GOMODCACHE", t.TempDir())
	publish(t, served, "v1.0.2")
	one := func(version string) module {
		return module{path: "example.com/m", version: version, programs: []program{{"p", "example.com/m/cmd/p"}}, stamps: []string{"main.version=" + version}}
	}
	for named, want := range map[string]string{"v1.0.2": "v1.0.2", "v1.0.7": "v1.0.2"} {
		var told []string
		dir := t.TempDir()
		err := instead{one(named), one("v1.0.2")}.make(t.Context(), job{dir: dir, arch: runtime.GOARCH, say: func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }})
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "bin/p")).Output()
		if err != nil || string(out) != want {
			t.Errorf("%s: the program is %q, %v", named, out, err)
		}
		if loud := strings.HasPrefix(told[0], named+" IS NOT AVAILABLE as a module, so v1.0.2 is built instead: "); loud != (named != want) {
			t.Errorf("%s: %q", named, told)
		}
	}
}

// publish writes a version of the module example.com/m, which prints it, into a folder in the layout of a module proxy.
func publish(t *testing.T, folder, version string) {
	t.Helper()
	publishFiles(t, folder, version, map[string]string{"go.mod": "module example.com/m\n\ngo 1.26.0\n",
		"cmd/p/main.go": "package main\n\nimport \"os\"\n\nvar version string\n\nfunc main() { _, _ = os.Stdout.WriteString(version) }\n"})
}

// publishFiles writes a version of the module example.com/m with some files.
func publishFiles(t *testing.T, folder, version string, files map[string]string) {
	t.Helper()
	dir := filepath.Join(folder, "example.com/m/@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	for name, content := range files {
		w, err := z.Create("example.com/m@" + version + "/" + name)
		if err == nil {
			_, err = w.Write([]byte(content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{version + ".info": `{"Version":"` + version + `"}`, version + ".mod": files["go.mod"], version + ".zip": archive.String(), "list": version + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFiles: programs of a folder may come from several modules.
func TestFiles(t *testing.T) {
	for name, want := range map[string][]string{
		"etcd-v3.6.12":       {"etcd", "etcdutl", "etcdctl"},
		"containerd-v2.3.4":  {"containerd", "ctr", "containerd-shim-runc-v2"},
		"cni-plugins-v1.9.1": {"bridge", "ptp", "loopback", "host-local", "portmap"},
		"kubernetes-v1.36.3": {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"},
		"runc-v1.4.3":        {"runc"},
	} {
		got, err := choose(sources("1.36.3"), name)
		if err != nil {
			t.Fatal(err)
		}
		var files []string
		for _, w := range want {
			files = append(files, "bin/"+w, "bin/"+w+".sha256")
		}
		if !slices.Equal(got[0].files(), files) {
			t.Errorf("%s: %v, want %v", name, got[0].files(), files)
		}
	}
}

func TestLinkerFlags(t *testing.T) {
	for name, want := range map[string]string{
		"kubernetes": "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 -X k8s.io/component-base/version.gitMajor=1" +
			" -X k8s.io/component-base/version.gitMinor=36 -X k8s.io/component-base/version.gitTreeState=clean",
		"coredns": "-s -w",
	} {
		got, err := choose(sources("1.36.3"), name)
		if err != nil {
			t.Fatal(err)
		}
		if flags := got[0].recipe.(modules)[0].ldflags(); flags != want {
			t.Errorf("%s: %s, want %s", name, flags, want)
		}
	}
}

func TestGoMod(t *testing.T) {
	got := goMod([]module{{path: "example.com/a", version: "v1.2.3"}, {path: "example.com/c", version: "v1.0.0"}}, []string{"example.com/b v0.2.3"})
	want := "module build\n\ngo 1.26.0\n\nrequire example.com/a v1.2.3\n\nrequire example.com/c v1.0.0\n\nreplace example.com/b => example.com/b v0.2.3\n"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestComplaint(t *testing.T) {
	if got := complaint("go: downloading x v1\nx.go:1: wrong\ngo: downloading y v1\n"); got != "x.go:1: wrong\n" {
		t.Errorf("%q", got)
	}
}

func TestCompiler(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CC", "")
	for _, arch := range []string{"amd64", "arm64", "riscv64"} {
		if got, err := compiler(arch); err == nil || !strings.Contains(err.Error(), "CC") {
			t.Errorf("%s: %q, %v; want an error that tells what to do", arch, got, err)
		}
	}
	t.Setenv("CC", "clang")
	if got, err := compiler("arm64"); err != nil || got != "clang" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestCodeName(t *testing.T) {
	for text, want := range map[string]string{
		"ID=debian\nVERSION_CODENAME=bookworm\n": "bookworm",
		"VERSION_CODENAME=\"noble\"\nID=ubuntu":  "noble",
		"ID=fedora\nVERSION_CODENAME=\n":         "",
		"":                                       "",
	} {
		got, err := codeName(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "image") {
			t.Errorf("%v does not tell the way out", err)
		}
	}
}

func TestPackageNames(t *testing.T) {
	const text = `iptables
  Depends: libip4tc2
 |Depends: <debconf-2.0>
    cdebconf
libip4tc2
<debconf-2.0>
libc6
`
	if got, want := packageNames([]byte(text)), []string{"iptables", "libip4tc2", "libc6"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestRootfs creates the root from a small one like a package's.
func TestRootfs(t *testing.T) {
	root := t.TempDir()
	for _, f := range []string{"sbin/modprobe", "usr/sbin/" + multi, "usr/sbin/xtables-legacy-multi", "usr/sbin/nft", "lib/x/libm.so.6", "lib64/ld.so",
		"usr/lib/x/xtables/libxt_statistic.so", "usr/lib/x/gconv/UTF-16.so", "usr/share/doc/nft/copyright", "etc/protocols"} {
		file := filepath.Join(root, f)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(f), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("xtables-legacy-multi", filepath.Join(root, "usr/sbin/iptables-legacy")); err != nil {
		t.Fatal(err)
	}
	for _, step := range []func(string) error{mergeUsr, iptables{}.trim, iptables{}.link, checkLibraries} {
		if err := step(root); err != nil {
			t.Fatal(err)
		}
	}
	for file, want := range map[string]string{"usr/lib/x/libm.so.6": "lib/x/libm.so.6", "lib64/ld.so": "lib64/ld.so", "sbin/iptables": "usr/sbin/" + multi,
		"usr/sbin/ip6tables-restore": "usr/sbin/" + multi, "lib/x/xtables/libxt_statistic.so": "usr/lib/x/xtables/libxt_statistic.so", "etc/protocols": "etc/protocols"} {
		if got, err := os.ReadFile(filepath.Join(root, file)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want what was %s", file, got, err, want)
		}
	}
	for _, gone := range []string{"usr/share", "usr/lib/x/gconv", "usr/sbin/iptables-legacy", "usr/sbin/xtables-legacy-multi", "sbin/modprobe"} {
		if _, err := os.Lstat(filepath.Join(root, gone)); err == nil {
			t.Errorf("%s is still there", gone)
		}
	}
}

// TestMissingLibrary puts one real program of the host into a root, without its libraries.
func TestMissingLibrary(t *testing.T) {
	program, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "usr/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "usr/bin/sh"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := checkLibraries(root); err == nil || !strings.Contains(err.Error(), "libc.") {
		t.Errorf("%v, want that the C library is missing", err)
	}
}

// TestAProgramOfThisFolderIsBuilt builds a program that needs only the standard library.
func TestAProgramOfThisFolderIsBuilt(t *testing.T) {
	dir := t.TempDir()
	var told []string
	j := job{dir: dir, arch: runtime.GOARCH, say: func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }}
	o := ownModule{folder: "gce", program: "auth-provider-gcp"}
	if err := o.make(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	for _, f := range o.files() {
		if _, err := os.Stat(filepath.Join(dir, f)); err != nil {
			t.Error(err)
		}
	}
	if !strings.Contains(told[0], "IS NOT AVAILABLE as a module") {
		t.Errorf("told %q", told)
	}
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata-Flavor") == "Google" && r.URL.Path == "/computeMetadata/v1/instance/service-accounts/default/token" {
			_, _ = io.WriteString(w, `{"access_token":"secret","expires_in":3599}`) // the test would fail
		}
	}))
	defer cloud.Close()
	c := exec.CommandContext(t.Context(), filepath.Join(dir, "bin/auth-provider-gcp"))
	c.Env = []string{"GCE_METADATA_HOST=" + strings.TrimPrefix(cloud.URL, "http://")}
	c.Stdin = strings.NewReader(`{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"europe-docker.pkg.dev/p/r/i:v1"}`)
	out, err := c.Output()
	want := `{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","auth":{"europe-docker.pkg.dev":{"username":"_token","password":"secret"}}}`
	if err != nil || strings.TrimSpace(string(out)) != want {
		t.Errorf("it answers %s, %v", out, err)
	}
	o.folder = "nowhere"
	if err := o.make(t.Context(), j); err == nil || !strings.Contains(err.Error(), "run this command in its own folder") {
		t.Errorf("elsewhere: %v", err)
	}
}
