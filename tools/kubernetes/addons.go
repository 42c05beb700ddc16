package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
)

// addons returns, by name, what add-ons run that clusters of a Kubernetes version may have. They are
// only built on request.
func addons(kubernetes string) map[string][]source {
	const gitVersion = "k8s.io/component-base/version.gitVersion="
	const metrics, dns, snapshots, karpenter = "sigs.k8s.io/metrics-server", "sigs.k8s.io/external-dns", "github.com/kubernetes-csi/external-snapshotter/v8", "sigs.k8s.io/karpenter"
	return map[string][]source{
		"metrics-server": {published("metrics-server", metricsVersion, metrics, "/cmd/metrics-server", gitVersion+metricsVersion)},
		"cert-manager":   {certManager()},
		"external-dns": {{name: "external-dns", version: dnsVersion, recipe: mended{ // whose own go.sum has a module that is no longer published
			module: module{path: dns, version: dnsVersion, programs: []program{{"external-dns", dns}}, stamps: []string{dns + "/pkg/apis/externaldns.Version=" + dnsVersion}}}},
			{name: "bind9", find: debianRelease, recipe: bind{}}},
		"snapshot-controller": {withLibraries(kubernetes, "snapshot-controller", snapshotVersion, snapshots, "/cmd/snapshot-controller", "main.version="+snapshotVersion)},
		"local-path":          {localPath(kubernetes)},
		"karpenter-kwok":      {published("karpenter-kwok", karpenterVersion, karpenter, "/kwok", karpenter+"/pkg/operator.Version="+karpenterVersion[1:])},
	}
}

// published is a program that is built as its module was published.
func published(name, version, path, in string, stamps ...string) source {
	return source{name: name, version: version, recipe: modules{{path: path, version: version, programs: []program{{name, path + in}}, stamps: stamps}}}
}

// withLibraries is a program that is built with the libraries of a version of Kubernetes, which then
// need not be compiled again in a second version.
func withLibraries(kubernetes, name, version, module, in string, stamps ...string) source {
	return source{name: name, version: version, recipe: described{
		content: name + " " + version + ", built from its Go module with the libraries of Kubernetes " + kubernetes,
		recipe:  modules{sharing(kubernetes, name, version, module, in, stamps...)}}}
}

func sharing(kubernetes, name, version, path, in string, stamps ...string) module {
	return module{path: path, version: version, programs: []program{{name, path + in}}, stamps: stamps,
		resolvedWith: append([]module{{path: kubernetesPath, version: kubernetes, staging: true}}, withKubernetes(kubernetes)...)}
}

// The versions that kops' manifests and those of tests name, and the newest version of cert-manager
// whose programs are part of its module.
const (
	metricsVersion     = "v0.8.0"
	certManagerVersion = "v1.19.5"
	certManagerBuilt   = "v1.11.5"
	dnsVersion         = "v0.14.1"
	snapshotVersion    = "v8.5.0"
	localPathVersion   = "v0.0.30"
	karpenterVersion   = "v1.13.0"
)

// certManager is the controller, the webhook, the injector of CA certificates, and the solver of
// ACME challenges.
func certManager() source {
	const at = "github.com/cert-manager/cert-manager"
	m := mended{
		module: module{path: at, version: certManagerBuilt, stamps: []string{at + "/pkg/util.AppVersion=" + certManagerBuilt}},
		added:  map[string]string{"cmd/controller/livez.go": livez},
	}
	for _, p := range []string{"controller", "webhook", "cainjector", "acmesolver"} {
		m.programs = append(m.programs, program{p, at + "/cmd/" + p})
	}
	return source{name: "cert-manager", version: certManagerVersion, recipe: described{
		content: "cert-manager " + certManagerBuilt + ", built from its Go module, with the endpoint of later versions that kubelets probe", recipe: m}}
}

// livez answers a kubelet's probe of the controller, which versions before 1.12 do not.
const livez = `package main

import "net/http"

func init() {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	go func() { panic(http.ListenAndServe(":9403", mux)) }()
}
`

// localPath is the provisioner, and the shell that its helper pods run.
func localPath(kubernetes string) source {
	s := withLibraries(kubernetes, "local-path-provisioner", localPathVersion, "github.com/rancher/local-path-provisioner", "", "main.VERSION="+localPathVersion)
	d := s.recipe.(described)
	return source{name: s.name, version: s.version, recipe: described{content: d.content + ", and busybox of Debian", recipe: several{d.recipe, busybox{}}}}
}

// busybox is the root of an image with a shell and the usual tools, in one program.
type busybox struct{}

func (busybox) files() []string { return []string{"rootfs/bin/busybox", "rootfs/bin/sh"} }

func (b busybox) make(ctx context.Context, j job) error {
	root := filepath.Join(j.dir, "rootfs")
	if err := unpackPackages(ctx, j, root, "busybox-static"); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(root, "usr")); err != nil {
		return err
	}
	for _, tool := range []string{"sh", "cat", "chmod", "ls", "mkdir", "rm", "rmdir", "sleep"} {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", tool)); err != nil {
			return err
		}
	}
	return reportSize(j, "packages", root)
}

// bind is a DNS server that takes dynamic updates, for tests of what publishes names.
type bind struct{}

func (bind) files() []string { return []string{"rootfs/usr/sbin/named"} }

func (bind) make(ctx context.Context, j job) error {
	names, err := dependencies(ctx, "bind9-libs", "libcap2")
	if err != nil {
		return err
	}
	// It runs on the host, with the host's own C library.
	names = slices.DeleteFunc(names, func(n string) bool { return n == "libc6" || n == "libgcc-s1" || n == "gcc-12-base" })
	root := filepath.Join(j.dir, "rootfs")
	if err := unpackPackages(ctx, j, root, append(names, "bind9")...); err != nil {
		return err
	}
	return reportSize(j, "packages", root)
}
