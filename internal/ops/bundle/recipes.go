package bundle

import (
	"compress/gzip"
	"errors"
	"io"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/programs"
)

// part is a program in a file or an image that is packed. {names} in it stand for what
// stands at the same names of the recipe's URL or repository.
type part struct {
	// set is what the program was built from, without its version; kops' own have "".
	set string
	// program is its name; empty means all of the set.
	program string
	// at is its path, or the folder of all; files that are the program itself have none.
	at string
}

// fileRecipe makes a file of built programs.
type fileRecipe struct {
	// url is the public place; {version} and {arch} stand for what they say.
	url   string
	parts []part
	pack  packing
}

// ours says that what others publish at the place is not this.
func (r fileRecipe) ours() bool { return len(r.parts) > 0 && r.parts[0].set == "" }

// packing is how programs become a file.
type packing int

const (
	plain   packing = iota // the program itself
	xz                     // the program, as .xz
	archive                // a .tar.gz of programs
)

// fileRecipes are the files of machines that can be packed. Archives and .xz are
// not compressed, for the same reason as the layers of images.
func fileRecipes() []fileRecipe {
	const kubernetes = "https://dl.k8s.io/release/v{version}/bin/linux/{arch}/"
	const own = "https://" + programs.Registry + "/binaries/kops/{version}/linux/{arch}/"
	return []fileRecipe{
		{kubernetes + "kubelet", []part{{"kubernetes", "kubelet", ""}}, plain},
		{kubernetes + "kubectl", []part{{"kubernetes", "kubectl", ""}}, plain},
		{own + "nodeup", []part{{"", "nodeup", ""}}, plain},
		{own + "nodeup.xz", []part{{"", "nodeup", ""}}, xz},
		{"https://github.com/opencontainers/runc/releases/download/v{version}/runc.{arch}", []part{{"runc", "runc", ""}}, plain},
		{"https://github.com/containerd/containerd/releases/download/v{version}/containerd-{version}-linux-{arch}.tar.gz",
			[]part{{"containerd", "containerd", "bin/containerd"}, {"containerd", "containerd-shim-runc-v2", "bin/containerd-shim-runc-v2"}, {"containerd", "ctr", "bin/ctr"}}, archive},
		{"https://github.com/containernetworking/plugins/releases/download/v{version}/cni-plugins-linux-{arch}-v{version}.tgz",
			[]part{{"cni-plugins", "", "."}}, archive},
		{"https://artifacts.k8s.io/binaries/cloud-provider-{cloud}/v{version}/linux/{arch}/{program}-linux-{arch}", []part{{"{program}", "{program}", ""}}, plain},
		{"https://artifacts.k8s.io/binaries/cloud-provider-{cloud}/v{version}/{program}/linux/{arch}/{program}", []part{{"{program}", "{program}", ""}}, plain},
	}
}

// imageRecipe makes an image of built programs. The versions of its programs are
// its tag.
type imageRecipe struct {
	repository string
	parts      []part
	// root is a folder of programs and libraries below the rest, or "".
	root            string
	entrypoint, cmd []string
	user            string // empty is root: what runs in a cluster says its user itself
	// ours says that what others publish under the name is not this.
	ours bool
}

// imageRecipes are the images of clusters that can be packed.
func imageRecipes() []imageRecipe {
	runner := part{"", "go-runner", "/go-runner"}
	component := func(name, root string) imageRecipe {
		return imageRecipe{repository: "registry.k8s.io/" + name, parts: []part{{"kubernetes", name, "/usr/local/bin/" + name}, runner}, root: root}
	}
	own := func(name string) imageRecipe {
		at := "/ko-app/" + name
		return imageRecipe{repository: programs.Registry + "/" + name, parts: []part{{"", name, at}}, entrypoint: []string{at}, ours: true}
	}
	bin := func(name string) part { return part{"etcd", name, "/usr/local/bin/" + name} }
	return []imageRecipe{
		component("kube-apiserver", ""), component("kube-controller-manager", ""), component("kube-scheduler", ""),
		component("kube-proxy", "iptables"),
		{repository: "registry.k8s.io/etcd", parts: []part{bin("etcd"), bin("etcdutl"), bin("etcdctl")}, entrypoint: []string{"/usr/local/bin/etcd"}},
		{repository: programs.Registry + "/" + programs.EtcdManager, parts: []part{{"", "etcd-manager", "/ko-app/etcd-manager"}, runner},
			entrypoint: []string{"/ko-app/etcd-manager"}, ours: true},
		own(programs.Controller), own(programs.DNSController), own(programs.Channels), own(programs.Healthcheck),
		{repository: "registry.k8s.io/coredns/coredns", parts: []part{{"coredns", "coredns", "/coredns"}}, entrypoint: []string{"/coredns"}},
		{repository: "registry.k8s.io/pause", parts: []part{{"", "pause", "/pause"}}, entrypoint: []string{"/pause"}, user: "65535:65535"},
		{repository: "registry.k8s.io/e2e-test-images/agnhost", parts: []part{{"agnhost", "agnhost", "/agnhost"}},
			entrypoint: []string{"/agnhost"}, cmd: []string{"pause"}},
		{repository: "registry.k8s.io/provider-{cloud}/cloud-controller-manager", entrypoint: []string{"/bin/{cloud}-cloud-controller-manager"},
			parts: []part{{"cloud-provider-{cloud}", "{cloud}-cloud-controller-manager", "/bin/{cloud}-cloud-controller-manager"}}},
		{repository: "registry.k8s.io/cloud-provider-{cloud}/cloud-controller-manager", entrypoint: []string{"/cloud-controller-manager"},
			parts: []part{{"cloud-provider-{cloud}", "cloud-controller-manager", "/cloud-controller-manager"}}},
	}
}

// fileRecipeFor returns the recipe of a public URL, and the version and the
// architecture in it.
func fileRecipeFor(url string) (r fileRecipe, version string, arch download.Arch, ok bool) {
	for _, r := range fileRecipes() {
		if v, ok := match(r.url, url); ok {
			r.parts = filled(r.parts, v)
			return r, v["version"], download.Arch(v["arch"]), true
		}
	}
	return fileRecipe{}, "", "", false
}

// imageRecipeFor returns the recipe of an image, and its tag.
func imageRecipeFor(image string) (r imageRecipe, tag string, ok bool) {
	for _, r := range imageRecipes() {
		if v, ok := match(r.repository+":{tag}", image); ok {
			r.parts, r.entrypoint = filled(r.parts, v), slices.Clone(r.entrypoint)
			for i, e := range r.entrypoint {
				r.entrypoint[i] = fill(e, v)
			}
			return r, v["tag"], true
		}
	}
	return imageRecipe{}, "", false
}

// filled are parts with what their {names} stand for.
func filled(parts []part, v map[string]string) []part {
	var out []part
	for _, p := range parts {
		out = append(out, part{fill(p.set, v), fill(p.program, v), fill(p.at, v)})
	}
	return out
}

// fill puts what {names} stand for into a text.
func fill(text string, v map[string]string) string {
	for name, is := range v {
		text = strings.ReplaceAll(text, "{"+name+"}", is)
	}
	return text
}

// match returns what stands at the {names} of a pattern; one that occurs twice
// stands for the same text.
func match(pattern, text string) (map[string]string, bool) {
	var names []string
	name := regexp.MustCompile(`\\\{(\w+)\\\}`)
	expression := name.ReplaceAllStringFunc(regexp.QuoteMeta(pattern), func(s string) string {
		names = append(names, name.FindStringSubmatch(s)[1])
		return `([^/]+?)`
	})
	found := regexp.MustCompile("^" + expression + "$").FindStringSubmatch(text)
	if found == nil {
		return nil, false
	}
	out := map[string]string{}
	for i, n := range names {
		if old, twice := out[n]; twice && old != found[i+1] {
			return nil, false
		}
		out[n] = found[i+1]
	}
	return out, true
}

// collect finds the programs of parts; suffix is the version of what they were
// built from, as folders end in it.
func (p folders) collect(t tree, parts []part, suffix string, arch download.Arch) error {
	var missing []string
	for _, part := range parts {
		set := part.set
		if set != "" {
			set += "-" + suffix
		}
		var found []*input
		var err error
		if part.program == "" {
			found, err = p.all(set, arch)
		} else {
			found = make([]*input, 1)
			found[0], err = p.find(set, part.program, arch)
		}
		if gone := absent(""); errors.As(err, &gone) {
			missing = append(missing, string(gone))
			continue
		}
		if err != nil {
			return err
		}
		for _, in := range found {
			at := part.at
			if part.program == "" {
				at = path.Join(at, filepath.Base(in.path))
			}
			t.program(at, in)
		}
	}
	if len(missing) > 0 {
		return absent(strings.Join(missing, "; "))
	}
	return nil
}

// write writes the file of a recipe from its programs.
func (r fileRecipe) write(w io.Writer, t tree) error {
	switch r.pack {
	case archive:
		z, err := gzip.NewWriterLevel(w, gzip.NoCompression)
		if err != nil {
			return err
		}
		if err := t.tar(z); err != nil {
			return err
		}
		return z.Close()
	case xz:
		return writeXZ(w, t[""].from.size, t[""].from.copy)
	default:
		return t[""].from.copy(w)
	}
}

// trees finds what an image is made of for each architecture.
func (r imageRecipe) trees(p folders, tag string, arches []download.Arch) (map[download.Arch]tree, error) {
	out := map[download.Arch]tree{}
	for _, arch := range arches {
		t := rootless()
		if r.root != "" {
			root, err := p.root(r.root, arch)
			if err != nil {
				return nil, err
			}
			if err := t.folder(root); err != nil {
				return nil, err
			}
		}
		if err := p.collect(t, r.parts, tag, arch); err != nil {
			return nil, err
		}
		out[arch] = t
	}
	return out, nil
}
