package main

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
)

// source is something that is built once per version.
type source struct {
	name, version string
	// find returns the version, if only the source itself determines it.
	find func(context.Context) (string, error)
	recipe
}

// recipe creates the files of a source.
type recipe interface {
	// files are the paths below the source's folder that must exist for it to be complete.
	files() []string
	// make writes them.
	make(ctx context.Context, j job) error
}

// job is the environment in which a recipe runs.
type job struct {
	dir, arch string
	say       func(format string, args ...any)
}

func (s source) String() string {
	if s.version == "" {
		return s.name
	}
	return s.name + "-" + s.version
}

// Versions of components that are not part of Kubernetes, as a cluster uses them.
const (
	containerdVersion = "v2.3.4"
	runcVersion       = "v1.4.3"
	pluginsVersion    = "v1.9.1"
	corednsVersion    = "v1.14.3"
)

// sources lists what a cluster of a Kubernetes version runs; slow builds come last.
func sources(version string) []source {
	version = vPrefixed(version)
	return []source{
		cniPlugins(),
		{name: "runc", version: runcVersion, recipe: runc{version: runcVersion}},
		{name: "iptables", find: debianRelease, recipe: iptables{}},
		// A cluster takes backups with a utility, and one of a later patch version reads
		// what a server of an earlier patch wrote. The utilities of some patches
		// are not available as modules, nor is raft of 3.5.31, whose code is the
		// same in every patch from 3.5.21 to 3.5.35.
		etcd("v3.5.31", "v3.5.35", "go.etcd.io/etcd/raft/v3 v3.5.29"),
		etcd("v3.6.12", "v3.6.14"),
		etcd("v3.7.0", "v3.7.0"),
		agnhost(version),
		containerd(),
		{name: "coredns", version: corednsVersion, recipe: modules{{path: "github.com/coredns/coredns", version: corednsVersion,
			programs: []program{{"coredns", "github.com/coredns/coredns"}}}}},
		kubernetes(version),
	}
}

func vPrefixed(version string) string { return "v" + strings.TrimPrefix(version, "v") }

// choose returns the sources in a list of names.
func choose(all []source, only string) ([]source, error) {
	if only == "" {
		return all, nil
	}
	var chosen []source
	wanted := strings.Split(only, ",")
	for _, s := range all {
		if slices.Contains(wanted, s.name) || slices.Contains(wanted, s.String()) {
			chosen = append(chosen, s)
		}
	}
	for _, w := range wanted {
		if !slices.ContainsFunc(all, func(s source) bool { return s.name == w || s.String() == w }) {
			return nil, fmt.Errorf("there is no source %q; the sources are %s", w, all)
		}
	}
	return chosen, nil
}

const kubernetesPath = "k8s.io/kubernetes"

func kubernetes(version string) source {
	m := module{path: kubernetesPath, version: version, staging: true, resolvedWith: withKubernetes(version)}
	for _, p := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"} {
		m.programs = append(m.programs, program{p, kubernetesPath + "/cmd/" + p})
	}
	const stamp = "k8s.io/component-base/version."
	parts := append(strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3), "", "")
	m.stamps = []string{stamp + "gitVersion=" + version, stamp + "gitMajor=" + parts[0], stamp + "gitMinor=" + parts[1], stamp + "gitTreeState=clean"}
	return source{name: "kubernetes", version: version, recipe: modules{m}}
}

// agnhost is the program that Kubernetes' own tests run in pods; it has its own versions.
func agnhost(version string) source {
	const in = "test/images/agnhost"
	m := module{path: kubernetesPath, version: version, staging: true, resolvedWith: withKubernetes(version), programs: []program{{"agnhost", kubernetesPath + "/" + in}}}
	return source{name: "agnhost", recipe: modules{m}, find: func(ctx context.Context) (string, error) {
		return m.read(ctx, in+"/VERSION", version)
	}}
}

// etcd is a server and the utilities of a version; the server is built with other
// versions of some modules than it requires.
func etcd(server, utilities string, instead ...string) source {
	one := func(name, part, version string, instead ...string) module {
		path := "go.etcd.io/etcd/" + part + "/v3"
		return module{path: path, version: version, instead: instead, programs: []program{{name, path}}}
	}
	return source{name: "etcd", version: server, recipe: modules{
		one("etcd", "server", server, instead...), one("etcdutl", "etcdutl", utilities), one("etcdctl", "etcdctl", utilities),
	}}
}

// containerd is built like the upstream static release, without the
// snapshotter that needs the headers of btrfs; the shim leaves out gRPC.
func containerd() source {
	const at = "github.com/containerd/containerd/v2"
	static := []string{"urfave_cli_no_docs", "osusergo", "netgo", "static_build", "no_btrfs"}
	one := func(tags []string, names ...string) module {
		m := module{path: at, version: containerdVersion, tags: tags, stamps: []string{at + "/version.Version=" + containerdVersion}}
		for _, n := range names {
			m.programs = append(m.programs, program{n, at + "/cmd/" + n})
		}
		return m
	}
	return source{name: "containerd", version: containerdVersion, recipe: modules{
		one(static, "containerd", "ctr"), one(append(slices.Clone(static), "no_grpc"), "containerd-shim-runc-v2"),
	}}
}

func cniPlugins() source {
	return source{name: "cni-plugins", version: pluginsVersion, recipe: plugins(pluginsVersion, "main/bridge", "main/ptp", "main/loopback", "ipam/host-local", "meta/portmap")}
}

// plugins is some of the reference CNI plugins.
func plugins(version string, names ...string) modules {
	const at = "github.com/containernetworking/plugins"
	m := module{path: at, version: version, stamps: []string{at + "/pkg/utils/buildversion.BuildVersion=" + version}}
	for _, p := range names {
		m.programs = append(m.programs, program{path.Base(p), at + "/plugins/" + p})
	}
	return modules{m}
}
