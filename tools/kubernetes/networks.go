package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// networks returns, by the value of `kops create cluster --networking`, what the agents of a pod
// network run.
func networks() map[string][]source {
	return map[string][]source{"cilium": {cilium()}, "flannel": flannel(), "kube-router": {kubeRouter()}}
}

// The versions that kops' manifests name, and the versions that are published as modules.
const (
	ciliumVersion        = "v1.18.12"
	ciliumBuilt          = "v1.20.2"
	flannelVersion       = "v0.28.9"
	flannelBuilt         = "v0.28.10"
	flannelPluginVersion = "v1.9.1-flannel3"
	flannelPluginBuilt   = "v0.9.1" // the last version of the reference plugins that has flannel's
	kubeRouterVersion    = "v2.11.1"
	kubeRouterBuilt      = "v2.1.0"
)

const ciliumPath = "github.com/cilium/cilium"

// cilium is the agent and what it runs: the compiler for the programs that it loads into the
// kernel, their source, and iptables; and the operator, and the relay of Hubble.
//
// Envoy is not built, so there are no rules for HTTP, no Ingress and no Gateway API. API servers
// reject policies that need it: with one, an agent would apply no other policy either.
func cilium() source {
	one := func(tags []string, programs ...program) recipe {
		for i := range programs {
			programs[i].path = ciliumPath + "/" + programs[i].path
		}
		return mended{
			module: module{path: ciliumPath, version: ciliumBuilt, tags: append([]string{"osusergo"}, tags...), programs: programs,
				stamps: []string{"'" + ciliumPath + "/pkg/version.ciliumVersion=" + ciliumBuilt[1:] + " module 1970-01-01T00:00:00Z'"}},
			// A commit of gobgp that is not published as a version, one constant of a
			// nested module that is not published, and what only tests and generators need.
			edit: []string{
				"-replace=github.com/osrg/gobgp/v4=github.com/osrg/gobgp/v4@v4.7.0",
				"-replace=sigs.k8s.io/mcs-api/controllers=./" + mcsFolder, "-droprequire=sigs.k8s.io/mcs-api/conformance",
				"-dropreplace=sigs.k8s.io/controller-tools", "-droprequire=github.com/cilium/linters",
			},
			added: map[string]string{
				mcsFolder + "/go.mod":    "module sigs.k8s.io/mcs-api/controllers\n\ngo 1.26.0\n",
				mcsFolder + "/labels.go": "package controllers\n\nconst DerivedServiceAnnotation = \"multicluster.kubernetes.io/derived-service\"\n",
				"daemon/kops.go":         ciliumWithoutEnvoy,
				"operator/kops.go":       ciliumSeconds,
				"operator/pkg/networkpolicy/external-groups/provider/zz_kops.go": ciliumWithoutGroups,
			},
			changed: slices.Concat(withoutEnvoy(ciliumSchemas+"ciliumnetworkpolicies.yaml"), withoutEnvoy(ciliumSchemas+"ciliumclusterwidenetworkpolicies.yaml")),
		}
	}
	return source{name: "cilium", version: ciliumVersion, recipe: described{
		content: "Cilium " + ciliumBuilt + " without Envoy, built from its Go module, with clang, iptables and ipset of Debian",
		recipe: several{
			one(nil, program{"cilium-cni", "plugins/cilium-cni"}, program{"cilium-agent", "daemon"}, program{"cilium-dbg", "cilium-dbg"},
				program{"cilium-health", "cilium-health"}, program{"cilium-health-responder", "cilium-health/responder"},
				program{"cilium-mount", "tools/mount"}, program{"cilium-sysctlfix", "tools/sysctlfix"},
				program{"hubble", "hubble"}, program{"hubble-relay", "hubble-relay"}),
			// the flags of its configuration include those of AWS
			one([]string{"ipam_provider_aws", "ipam_provider_operator"}, program{"cilium-operator", "operator"}),
			plugins(pluginsVersion, "main/loopback"),
			ciliumRoot{},
		}}}
}

// Changes of programs of Cilium, so that they run with the configuration of the version that clusters
// ask for. Their environment has precedence over the configuration.
const (
	// ciliumWithoutEnvoy: the agent does not ask for the version of an Envoy that is not there.
	ciliumWithoutEnvoy = `package main

import "os"

func init() { os.Setenv("CILIUM_DISABLE_ENVOY_VERSION_CHECK", "true") }
`
	// ciliumSeconds: the operator reads a duration where earlier versions read a number of seconds.
	ciliumSeconds = `package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func init() {
	for _, a := range os.Args {
		dir, _ := strings.CutPrefix(a, "--config-dir=")
		text, err := os.ReadFile(filepath.Join(dir, "unmanaged-pod-watcher-interval"))
		if err != nil {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			os.Setenv("CILIUM_UNMANAGED_POD_WATCHER_INTERVAL", strconv.Itoa(n)+"s")
		}
	}
}
`
)

// ciliumWithoutGroups: the operator does not look for security groups of AWS, for which the cluster
// role of earlier versions has no right. The name of the file makes this the last init of its package.
const ciliumWithoutGroups = `package provider

func init() { delete(providers, AWSProvider) }
`

// ciliumSchemas is the folder of the custom resource definitions that Cilium's operator creates.
const ciliumSchemas = "pkg/k8s/apis/cilium.io/client/crds/v2/"

// withoutEnvoy returns the changes of the schema of policies: rules for HTTP, for names in TLS and for
// listeners are not valid. The expressions are simple, because API servers limit their cost.
func withoutEnvoy(file string) []change {
	const places = 4 // of ingress and egress, in spec and in specs
	without := func(schema string, fields ...string) change {
		conditions := "${1}x-kubernetes-validations:\n"
		for _, f := range fields {
			conditions += "${1}- rule: \"!has(self." + f + ")\"\n" +
				"${1}  message: \"this needs Envoy, which this build of Cilium does not have: use rules for ports and for DNS only\"\n"
		}
		return change{file: file, match: regexp.MustCompile(`(?m)^( +)description: \|-\n +` + schema), with: conditions + "$0", places: places}
	}
	return []change{
		without("Rules is a list of additional port level rules", "http"),
		without("PortRule is a list of ports/protocol combinations", "serverNames", "listener", "terminatingTLS", "originatingTLS"),
	}
}

// mcsFolder is the folder of a replaced module in the copy of Cilium's.
const mcsFolder = "kops-mcs-api-controllers"

// ciliumRoot is the root of an image for Cilium's agent.
type ciliumRoot struct{}

// clang is the version of the compiler in the agent's image.
const clang = "19"

func (ciliumRoot) files() []string {
	return []string{"rootfs/usr/bin/clang", "rootfs/usr/sbin/ipset", "rootfs/sbin/ip", "rootfs/usr/sbin/iptables", "rootfs/var/lib/cilium/bpf/bpf_lxc.c", "rootfs/install-plugin.sh"}
}

func (c ciliumRoot) make(ctx context.Context, j job) error {
	root, err := shellRoot(ctx, j, []string{"ipset", "iproute2", "util-linux", "mount", "libclang-cpp" + clang}, "clang-"+clang)
	if err != nil {
		return err
	}
	if err := c.addModule(ctx, root); err != nil {
		return err
	}
	if err := c.trim(root); err != nil {
		return err
	}
	return finishRoot(j, root)
}

// trim removes what only compiling programs for the host needs, and leaves the compiler under its
// usual name.
func (ciliumRoot) trim(root string) error {
	for _, unused := range []string{"usr/lib/cmake", "usr/lib/llvm-" + clang + "/lib/cmake", "usr/lib/llvm-" + clang + "/share", "var/lib/cilium/bpf/tests",
		"var/lib/cilium/bpf/complexity-tests", "var/lib/cilium/bpf/test-progs"} {
		if err := os.RemoveAll(filepath.Join(root, unused)); err != nil {
			return err
		}
	}
	return os.Symlink("clang-"+clang, filepath.Join(root, "usr/bin/clang"))
}

// addModule copies the source of the kernel's programs, and the scripts of init containers.
func (ciliumRoot) addModule(ctx context.Context, root string) error {
	got, err := module{path: ciliumPath, version: ciliumBuilt}.download(ctx)
	if err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(root, "var/lib/cilium/bpf"), os.DirFS(filepath.Join(got.Dir, "bpf"))); err != nil {
		return err
	}
	for _, script := range []string{"images/cilium/init-container.sh", "plugins/cilium-cni/install-plugin.sh", "plugins/cilium-cni/cni-uninstall.sh"} {
		text, err := os.ReadFile(filepath.Join(got.Dir, script))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, filepath.Base(script)), text, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// flannel is the agent, and the CNI plugin that its manifest installs from another image.
//
// The backend udp is not built, because it needs C, nor is a cloud's whose SDK is not available.
func flannel() []source {
	const at, cloud = "github.com/flannel-io/flannel", "github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud/"
	agent := mended{
		module:  module{path: at, version: flannelBuilt, programs: []program{{"flanneld", at}, {"install-conf", at + "/cmd/install_conf"}}, stamps: []string{at + "/pkg/version.Version=" + flannelBuilt}},
		edit:    []string{"-droprequire=" + cloud + "common", "-droprequire=" + cloud + "vpc"},
		without: []string{at + "/pkg/backend/tencentvpc", at + "/pkg/backend/udp"},
	}
	return []source{
		{name: "flannel-cni-plugin", version: flannelPluginVersion, recipe: described{
			content: "the flannel plugin of the CNI plugins " + flannelPluginBuilt, recipe: several{plugins(flannelPluginBuilt, "meta/flannel"), toolsRoot{}}}},
		{name: "flannel", version: flannelVersion, recipe: described{
			content: "flannel " + flannelBuilt + " without the backends udp and tencent-vpc, built from its Go module, with iptables of Debian",
			recipe:  several{agent, toolsRoot{"iproute2", "nftables"}}}},
	}
}

// kubeRouter is the agent with the tools that it calls.
func kubeRouter() source {
	const at = "github.com/cloudnativelabs/kube-router/v2"
	return source{name: "kube-router", version: kubeRouterVersion, recipe: described{
		content: "kube-router " + kubeRouterBuilt + ", which ignores the flags of later versions, built from its Go module, with iptables, ipset and iproute2 of Debian",
		recipe: several{
			mended{module: module{path: at, version: kubeRouterBuilt, programs: []program{{"kube-router", at + "/cmd/kube-router"}},
				stamps: []string{at + "/pkg/version.Version=" + kubeRouterBuilt}},
				added: map[string]string{"cmd/kube-router/kops_flags.go": "package main\n\nimport \"github.com/spf13/pflag\"\n\n" +
					"func init() { pflag.CommandLine.ParseErrorsWhitelist.UnknownFlags = true }\n"}},
			toolsRoot{"ipset", "iproute2", "conntrack"},
		}}}
}

// toolsRoot is the root of an image with a shell, iptables and some packages of the host's Debian.
type toolsRoot []string

func (toolsRoot) files() []string { return []string{"rootfs/bin/sh", "rootfs/usr/sbin/iptables"} }

func (t toolsRoot) make(ctx context.Context, j job) error {
	root, err := shellRoot(ctx, j, t)
	if err != nil {
		return err
	}
	return finishRoot(j, root)
}

// shellRoot unpacks a shell, the usual tools, iptables, and packages with all that they depend on,
// and packages alone.
func shellRoot(ctx context.Context, j job, packages []string, alone ...string) (root string, err error) {
	names, err := dependencies(ctx, append([]string{"dash", "bash", "coreutils", "findutils", "grep", "sed", "iptables", "netbase"}, packages...)...)
	if err != nil {
		return "", err
	}
	root = filepath.Join(j.dir, "rootfs")
	if err := unpackPackages(ctx, j, root, append(names, alone...)...); err != nil {
		return "", err
	}
	if err := mergeUsr(root); err != nil {
		return "", err
	}
	if err := trim(root); err != nil {
		return "", err
	}
	if err := (iptables{}).link(root); err != nil {
		return "", err
	}
	if err := os.Symlink("dash", filepath.Join(root, "usr/bin/sh")); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return root, nil
}

// finishRoot checks that nothing is missing in a root, and reports its size.
func finishRoot(j job, root string) error {
	if err := checkLibraries(root); err != nil {
		return fmt.Errorf("%w; the packages of this host's release are others", err)
	}
	return reportSize(j, "packages", root)
}
