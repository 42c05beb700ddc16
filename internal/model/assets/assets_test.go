package assets

import (
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
)

func ptr[T any](v T) *T { return &v }

func TestFilesOfAMachine(t *testing.T) {
	runtime := &api.ContainerdConfig{Version: ptr("2.3.4"), Runc: &api.Runc{Version: ptr("1.4.3")}}
	own := &api.ContainerdConfig{Packages: &api.PackagesConfig{URLAmd64: ptr("https://e.com/c.tgz"), HashAmd64: ptr("1234")}, InstallCriCtl: true}
	for _, c := range []struct {
		name    string
		machine Machine
		arch    download.Arch
		mirrors Mirrors
		want    []string // parts of the lines, in order
	}{
		{"AWS", Machine{Kubernetes: "1.32.0", CredentialProvider: "https://artifacts.k8s.io/binaries/cloud-provider-aws/v1.31.7/linux/%s/ecr-credential-provider-linux-%[1]s", CNIPlugins: true, Containerd: runtime}, download.AMD64, Mirrors{}, []string{
			"5ad4965598773d56a37a8e8429c3dc3d86b4c5c26d8417ab333ae345c053dae2@https://dl.k8s.io/release/v1.32.0/bin/linux/amd64/kubelet",
			"@https://dl.k8s.io/release/v1.32.0/bin/linux/amd64/kubectl",
			"@https://artifacts.k8s.io/binaries/cloud-provider-aws/v1.31.7/linux/amd64/ecr-credential-provider-linux-amd64",
			"@https://github.com/containernetworking/plugins/releases/download/v1.6.2/cni-plugins-linux-amd64-v1.6.2.tgz",
			"@https://github.com/containerd/containerd/releases/download/v2.3.4/containerd-2.3.4-linux-amd64.tar.gz",
			"@https://github.com/opencontainers/runc/releases/download/v1.4.3/runc.amd64"}},
		{"GCE on arm64", Machine{Kubernetes: "v1.36.0-rc.1", CredentialProvider: "https://artifacts.k8s.io/binaries/cloud-provider-gcp/v35.0.0/auth-provider-gcp/linux/%s/auth-provider-gcp", CNIPlugins: true}, download.ARM64, Mirrors{}, []string{
			"@https://dl.k8s.io/release/v1.36.0-rc.1/bin/linux/arm64/kubelet", "/arm64/kubectl",
			"@https://artifacts.k8s.io/binaries/cloud-provider-gcp/v35.0.0/auth-provider-gcp/linux/arm64/auth-provider-gcp",
			"@https://github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-arm64-v1.9.1.tgz"}},
		{"plugins of the user's", Machine{Kubernetes: "1.35.4", CNIPlugins: true, PluginsURL: "https://e.com/cni-plugins.tgz"}, download.AMD64, Mirrors{}, []string{"/kubelet", "/kubectl", "https://e.com/cni-plugins.tgz"}},
		{"plugins that are not needed", Machine{Kubernetes: "1.35.4", PluginsURL: "https://e.com/cni-plugins.tgz"}, download.AMD64, Mirrors{}, []string{"/kubelet", "/kubectl"}},
		{"a folder of binaries", Machine{Kubernetes: "https://e.com/builds/v1.35.9"}, download.AMD64, Mirrors{}, []string{
			"https://e.com/builds/v1.35.9/bin/linux/amd64/kubelet", "https://e.com/builds/v1.35.9/bin/linux/amd64/kubectl"}},
		{"a runtime of the user's", Machine{Kubernetes: "1.34.0", Containerd: own}, download.AMD64, Mirrors{}, []string{
			"/kubelet", "/kubectl", "1234@https://e.com/c.tgz", "@https://github.com/kubernetes-sigs/cri-tools/releases/download/v1.35.0/crictl-v1.35.0-linux-amd64.tar.gz"}},
		{"a repository of files", Machine{Kubernetes: "1.32.0"}, download.AMD64, MirrorsOf(&api.AssetsSpec{FileRepository: ptr("https://files.e.com/a,b/")}), []string{
			"5ad4965598773d56a37a8e8429c3dc3d86b4c5c26d8417ab333ae345c053dae2@https://files.e.com/a%2Cb/release/v1.32.0/bin/linux/amd64/kubelet", "/kubectl"}},
		{"the machine has a runtime", Machine{Kubernetes: "1.32.0", Containerd: &api.ContainerdConfig{SkipInstall: true, Version: ptr("1")}}, download.AMD64, Mirrors{},
			[]string{"/kubelet", "/kubectl"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.machine.Files(c.arch, c.mirrors, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(c.want) {
				t.Fatalf("files %v", got)
			}
			for i, w := range c.want {
				if line := got[i].String(); !strings.HasSuffix(line, w) {
					t.Errorf("%s\nwant %s", line, w)
				}
			}
		})
	}
}

var sum = strings.Repeat("ab", 32)

func TestHashesThatAreGivenWin(t *testing.T) {
	h := Hashes(func(u string) (string, bool) { return sum, strings.HasSuffix(u, "/kubelet") })
	got, err := Machine{Kubernetes: "1.32.0"}.Files(download.AMD64, Mirrors{}, h)
	if err != nil {
		t.Fatal(err)
	}
	if got[0].SHA256 != sum || len(got[1].SHA256) != 64 {
		t.Errorf("%v", got)
	}
}

func TestWrongVersionsAreRefused(t *testing.T) {
	for _, v := range []string{"", "2.0.0", "1", "1.x.0", "https://e.com/latest"} {
		if _, err := (Machine{Kubernetes: v}).Files(download.AMD64, Mirrors{}, nil); err == nil {
			t.Errorf("%q is accepted", v)
		}
	}
}

func TestCNIVersions(t *testing.T) {
	for minor, want := range map[int]string{32: "1.6.2", 33: "1.6.2", 34: "1.7.1", 35: "1.8.0", 36: "1.9.1", 40: "1.9.1"} {
		if got := cniVersion(minor); got != want {
			t.Errorf("1.%d: %s, want %s", minor, got, want)
		}
	}
}

func TestSomeMachinesHaveTheNewestPlugins(t *testing.T) {
	for newest, want := range map[bool]string{true: cniNewest, false: "1.8.0"} {
		files, err := Machine{Kubernetes: "1.35.4", NewestPlugins: newest, CNIPlugins: true}.Files(download.AMD64, Mirrors{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := files[len(files)-1].URLs[0]; !strings.HasSuffix(got, "cni-plugins-linux-amd64-v"+want+".tgz") {
			t.Errorf("%t: %s", newest, got)
		}
	}
}

func TestImagesOfMirrors(t *testing.T) {
	proxy := MirrorsOf(&api.AssetsSpec{ContainerProxy: ptr("proxy.e.com/cache/")})
	registry := MirrorsOf(&api.AssetsSpec{ContainerRegistry: ptr("r.e.com")})
	for _, c := range []struct {
		mirrors     Mirrors
		image, want string
	}{
		{Mirrors{}, "registry.k8s.io/pause:3", "registry.k8s.io/pause:3"},
		{MirrorsOf(nil), "quay.io/a/b:1", "quay.io/a/b:1"},
		{proxy, "registry.k8s.io/provider-aws/x:v1", "proxy.e.com/cache/provider-aws/x:v1"},
		{proxy, "quay.io/cilium/cilium:v1", "proxy.e.com/cache/cilium/cilium:v1"},
		{proxy, "localhost:5000/x", "proxy.e.com/cache/x"},
		{proxy, "flannel/flannel:v1", "proxy.e.com/cache/flannel/flannel:v1"},
		{proxy, "busybox", "proxy.e.com/cache/busybox"},
		{registry, "registry.k8s.io/provider-aws/x:v1", "r.e.com/provider-aws-x:v1"},
		{registry, "quay.io/cilium/cilium:v1", "r.e.com/quay.io-cilium-cilium:v1"},
	} {
		got := c.mirrors.Image(c.image)
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.image, got, c.want)
		}
		if again := c.mirrors.Image(got); again != got {
			t.Errorf("%s is mapped again, to %s", got, again)
		}
	}
}

func TestTheTableOfReleasedFiles(t *testing.T) {
	if len(published()) < 40 {
		t.Errorf("%d digests", len(published()))
	}
	for u, sum := range published() {
		if len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "" || !strings.HasPrefix(u, "https://") {
			t.Errorf("%s  %s", sum, u)
		}
	}
}

func TestParseSHA256(t *testing.T) {
	other := strings.Repeat("cd", 32)
	for text, want := range map[string]string{
		sum: sum, sum + "  kubelet\n": sum, strings.ToUpper(sum) + "\n": sum, sum + " *kubelet": sum, sum + "  out/kubelet": sum,
		sum + "  kubelet-linux-amd64\n":                                          sum, // some files are renamed when they are published
		other + "  kubelet.asc\n" + sum + "  kubelet\n" + other + "  kubelet2\n": sum,
		"": "", "\n": "", "kubelet " + sum: "", sum[2:]: "", strings.Repeat("xy", 32): "", "$(id)": "",
		other + "  kubelet.asc\n" + other + "  kubelet2\n": "", other + "\n" + sum + "\n": "",
	} {
		got, err := ParseSHA256([]byte(text), "kubelet")
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestWhereDigestsAreStated(t *testing.T) {
	const github = "https://github.com/"
	for public, want := range map[string]string{
		"https://dl.k8s.io/release/v1.35.0/bin/linux/amd64/kubelet":                                        "https://dl.k8s.io/release/v1.35.0/bin/linux/amd64/kubelet.sha256",
		github + "containerd/containerd/releases/download/v2.2.0/containerd-2.2.0-linux-amd64.tar.gz":      github + "containerd/containerd/releases/download/v2.2.0/containerd-2.2.0-linux-amd64.tar.gz.sha256sum",
		github + "opencontainers/runc/releases/download/v1.3.0/runc.arm64":                                 github + "opencontainers/runc/releases/download/v1.3.0/runc.sha256sum",
		github + "containerd/nerdctl/releases/download/v2.2.0/nerdctl-2.2.0-linux-amd64.tar.gz":            github + "containerd/nerdctl/releases/download/v2.2.0/SHA256SUMS",
		github + "containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz": github + "containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz.sha256",
		github + "kubernetes-sigs/cri-tools/releases/download/v1.35.0/crictl-v1.35.0-linux-amd64.tar.gz":   github + "kubernetes-sigs/cri-tools/releases/download/v1.35.0/crictl-v1.35.0-linux-amd64.tar.gz.sha256",
	} {
		if got := (Mirrors{}).Digests(public); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v", public, got)
		}
	}
	mirror := MirrorsOf(&api.AssetsSpec{FileRepository: ptr("https://f.e.com/x")})
	got := strings.Join(mirror.Digests(github+"opencontainers/runc/releases/download/v1.3.0/runc.arm64"), " ")
	const at = "opencontainers/runc/releases/download/v1.3.0/runc."
	if want := github + at + "sha256sum https://f.e.com/x/" + at + "arm64.sha256 https://f.e.com/x/" + at + "sha256sum"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestInvalidDigestsAreIgnored(t *testing.T) {
	h := Hashes(func(string) (string, bool) { return "$(touch /tmp/x)", true })
	if got := (Own{}).Nodeup("1.37.0", download.ARM64, "", Mirrors{}, h).SHA256; got != "" {
		t.Errorf("the digest is %q", got)
	}
}
