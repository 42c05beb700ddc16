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

// part is a program in a file or an image that is packed. {names} in it are replaced with the
// values at the same names in the recipe's URL or repository.
type part struct {
	// set is what the program was built from, without its version; it is "" for kops' own.
	set string
	// program is its name; empty means every program of the set.
	program string
	// at is its path, or the folder for all of them; it is unused for files that consist of the
	// program itself.
	at string
}

// fileRecipe describes a file made of built programs.
type fileRecipe struct {
	// url is the public place; {version} and {arch} are placeholders.
	url   string
	parts []part
	pack  packing
}

// isOwn reports whether the file is kops' own, so that what others publish at the same place is
// something else.
func (r fileRecipe) isOwn() bool { return len(r.parts) > 0 && r.parts[0].set == "" }

// packing is how programs are packed into a file.
type packing int

const (
	plain   packing = iota // the program itself
	xz                     // the program, as .xz
	archive                // a .tar.gz of programs
)

// fileRecipes returns the files for machines that can be packed. Archives and .xz files are not
// compressed, for the same reason as the layers of images.
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

// imageRecipe describes an image made of built programs. Their version is its tag.
type imageRecipe struct {
	repository string
	parts      []part
	// root is a folder of programs and libraries that goes beneath the rest, as SET-VERSION, whose
	// version may be a star, or "".
	root string
	// network is the pod network whose programs the image has, by its name for make; they are
	// only built on request.
	network string
	// addon is the same of an add-on.
	addon string
	// content says what the image has, if that is not what its tag says.
	content         string
	entrypoint, cmd []string
	user            string   // empty is root: manifests in a cluster set the user themselves
	env             []string // as NAME=value
	// isOwn means that the image is kops' own, so that what others publish under the name is
	// something else.
	isOwn bool
}

// imageRecipes returns the images for clusters that can be packed.
func imageRecipes() []imageRecipe {
	runner := part{"", "go-runner", "/go-runner"}
	component := func(name, root string) imageRecipe {
		return imageRecipe{repository: "registry.k8s.io/" + name, parts: []part{{"kubernetes", name, "/usr/local/bin/" + name}, runner}, root: root}
	}
	own := func(name string) imageRecipe {
		at := "/ko-app/" + name
		return imageRecipe{repository: programs.Registry + "/" + name, parts: []part{{"", name, at}}, entrypoint: []string{at}, isOwn: true}
	}
	in := func(set, folder string, names ...string) []part {
		var out []part
		for _, n := range names {
			out = append(out, part{set, n, folder + n})
		}
		return out
	}
	agent := func(network, repository string, parts ...part) imageRecipe {
		return imageRecipe{repository: repository, parts: parts, entrypoint: []string{parts[0].at}, root: parts[0].set + "-{tag}", network: network}
	}
	addon := func(name, repository, user, root, set, program, at string) imageRecipe {
		return imageRecipe{repository: repository, parts: []part{{set, program, at}}, entrypoint: []string{at}, user: user, root: root, addon: name}
	}
	certManager := func(program string) imageRecipe {
		return addon("cert-manager", "quay.io/jetstack/cert-manager-"+program, "1000", "", "cert-manager", program, "/app/cmd/"+program+"/"+program)
	}
	bin := func(name string) part { return part{"etcd", name, "/usr/local/bin/" + name} }
	return []imageRecipe{
		component("kube-apiserver", ""), component("kube-controller-manager", ""), component("kube-scheduler", ""),
		component("kube-proxy", "iptables-*"),
		{repository: "registry.k8s.io/etcd", parts: []part{bin("etcd"), bin("etcdutl"), bin("etcdctl")}, entrypoint: []string{"/usr/local/bin/etcd"}},
		{repository: programs.Registry + "/" + programs.EtcdManager, parts: []part{{"", "etcd-manager", "/ko-app/etcd-manager"}, runner},
			entrypoint: []string{"/ko-app/etcd-manager"}, isOwn: true},
		own(programs.Controller), own(programs.DNSController), own(programs.Channels), own(programs.Healthcheck),
		{repository: "registry.k8s.io/coredns/coredns", parts: []part{{"coredns", "coredns", "/coredns"}}, entrypoint: []string{"/coredns"}},
		{repository: "registry.k8s.io/pause", parts: []part{{"", "pause", "/pause"}}, entrypoint: []string{"/pause"}, user: "65535:65535"},
		{repository: "registry.k8s.io/e2e-test-images/agnhost", parts: []part{{"agnhost", "agnhost", "/agnhost"}},
			entrypoint: []string{"/agnhost"}, cmd: []string{"pause"}},
		agent("cilium", "quay.io/cilium/cilium", append(in("cilium", "/usr/bin/", "cilium-agent", "cilium-dbg", "cilium-health", "cilium-health-responder", "cilium-mount", "cilium-sysctlfix", "hubble"),
			part{"cilium", "cilium-cni", "/opt/cni/bin/cilium-cni"}, part{"cilium", "loopback", "/cni/loopback"})...),
		{repository: "quay.io/cilium/operator", parts: in("cilium", "/usr/bin/", "cilium-operator"), network: "cilium"},
		{repository: "quay.io/cilium/hubble-relay", parts: in("cilium", "/usr/bin/", "hubble-relay"), network: "cilium",
			env: []string{"GOPS_CONFIG_DIR=/tmp"}}, // it writes there, and its user has no home
		agent("flannel", "ghcr.io/flannel-io/flannel", in("flannel", "/opt/bin/", "flanneld", "install-conf")...),
		agent("flannel", "ghcr.io/flannel-io/flannel-cni-plugin", part{"flannel-cni-plugin", "flannel", "/flannel"}),
		agent("kube-router", "docker.io/cloudnativelabs/kube-router", in("kube-router", "/usr/local/bin/", "kube-router")...),
		addon("metrics-server", "registry.k8s.io/metrics-server/metrics-server", "65534", "", "metrics-server", "metrics-server", "/metrics-server"),
		certManager("controller"), certManager("webhook"), certManager("cainjector"), certManager("acmesolver"),
		addon("snapshot-controller", "registry.k8s.io/sig-storage/snapshot-controller", "", "", "snapshot-controller", "snapshot-controller", "/snapshot-controller"),
		addon("external-dns", "registry.k8s.io/external-dns/external-dns", "65532", "", "external-dns", "external-dns", "/bin/external-dns"),
		addon("local-path", "docker.io/rancher/local-path-provisioner", "", "local-path-provisioner-{tag}", "local-path-provisioner", "local-path-provisioner", "/usr/bin/local-path-provisioner"),
		{repository: "registry.k8s.io/provider-{cloud}/cloud-controller-manager", entrypoint: []string{"/bin/{cloud}-cloud-controller-manager"},
			parts: []part{{"cloud-provider-{cloud}", "{cloud}-cloud-controller-manager", "/bin/{cloud}-cloud-controller-manager"}}},
		{repository: "registry.k8s.io/cloud-provider-{cloud}/cloud-controller-manager", entrypoint: []string{"/cloud-controller-manager"},
			parts: []part{{"cloud-provider-{cloud}", "cloud-controller-manager", "/cloud-controller-manager"}}},
		{repository: "docker.io/{maker}/{cloud}-cloud-controller-manager", entrypoint: []string{"/bin/{cloud}-cloud-controller-manager"},
			parts: []part{{"cloud-provider-{cloud}", "{cloud}-cloud-controller-manager", "/bin/{cloud}-cloud-controller-manager"}}},
	}
}

// fileRecipeFor returns the recipe for a public URL, and the version and the architecture in it.
func fileRecipeFor(url string) (r fileRecipe, version string, arch download.Arch, ok bool) {
	for _, r := range fileRecipes() {
		if v, ok := match(r.url, url); ok {
			r.parts = fillParts(r.parts, v)
			return r, v["version"], download.Arch(v["arch"]), true
		}
	}
	return fileRecipe{}, "", "", false
}

// imageRecipeFor returns the recipe for an image, and the image's tag.
func imageRecipeFor(image string) (r imageRecipe, tag string, ok bool) {
	if full, err := fullName(image); err == nil {
		image = full
	}
	for _, r := range imageRecipes() {
		if v, ok := match(r.repository+":{tag}", image); ok {
			r.parts, r.entrypoint, r.root = fillParts(r.parts, v), slices.Clone(r.entrypoint), fill(r.root, v)
			for i, e := range r.entrypoint {
				r.entrypoint[i] = fill(e, v)
			}
			return r, v["tag"], true
		}
	}
	return imageRecipe{}, "", false
}

// fillParts returns the parts with their {names} replaced.
func fillParts(parts []part, v map[string]string) []part {
	var out []part
	for _, p := range parts {
		out = append(out, part{fill(p.set, v), fill(p.program, v), fill(p.at, v)})
	}
	return out
}

// fill replaces the {names} in a text.
func fill(text string, v map[string]string) string {
	for name, is := range v {
		text = strings.ReplaceAll(text, "{"+name+"}", is)
	}
	return text
}

// match returns the values of the {names} in a pattern; a name that occurs twice must have the same
// value both times.
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

// collect finds the programs of parts; suffix is the version of what they were built from, as it
// appears at the end of folder names.
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
		if gone := missingPrograms(""); errors.As(err, &gone) {
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
		return missingPrograms(strings.Join(missing, "; "))
	}
	return nil
}

// write writes a recipe's file from its programs.
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

// trees finds the contents of an image for each architecture.
func (r imageRecipe) trees(p folders, tag string, arches []download.Arch) (map[download.Arch]tree, error) {
	out := map[download.Arch]tree{}
	for _, arch := range arches {
		t := baseFiles()
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

// describe returns the description of what the first of an image's programs were built from, if it
// is not what the tag says; it is the same for all architectures.
func (r imageRecipe) describe(p folders, tag string, arches []download.Arch) (string, error) {
	if len(r.parts) == 0 || r.parts[0].set == "" || len(arches) == 0 {
		return "", nil
	}
	return p.content(r.parts[0].set+"-"+tag, arches[0])
}
