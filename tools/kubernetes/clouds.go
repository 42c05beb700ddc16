package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// clouds returns, by the name of a cloud, what its clusters also run.
func clouds(version string) map[string][]source {
	return map[string][]source{"aws": aws(version), "gce": gce(), "hetzner": hetzner()}
}

// sourcesFor lists what a cluster of a Kubernetes version runs on a cloud, with a pod network, and
// with add-ons whose names are separated by commas; all three may be "".
func sourcesFor(version, cloud, network, addon string) ([]source, error) {
	version = vPrefixed(version)
	if strings.Count(version, ".") != 2 {
		return nil, fmt.Errorf("%q is not a version such as 1.36.3", version)
	}
	all := sources(version)
	type choice struct {
		what, name string
		from       map[string][]source
	}
	choices := []choice{{"cloud", cloud, clouds(version)}, {"pod network", network, networks()}}
	for a := range strings.SplitSeq(addon, ",") {
		choices = append(choices, choice{"add-on", a, addons(version)})
	}
	for _, choice := range choices {
		more, ok := choice.from[choice.name]
		if !ok && choice.name != "" {
			return nil, fmt.Errorf("there is nothing to build for the %[1]s %[2]q; supported %[1]ss: %[3]v", choice.what, choice.name, slices.Sorted(maps.Keys(choice.from)))
		}
		all = append(slices.Clone(more), all...)
	}
	return all, nil
}

// The versions that kops uses in clusters on AWS, and the one that is built because the second
// is not published as a module.
const (
	awsControllerVersion  = "v1.36.1"
	awsCredentialsVersion = "v1.31.7"
	awsCredentialsNear    = awsControllerVersion
)

const awsPath = "k8s.io/cloud-provider-aws"

// withAWS returns Kubernetes if the controller manager is of the same minor version, and
// withKubernetes returns the controller manager.
func withAWS(version string) []module {
	if !sameMinor(version, awsControllerVersion) {
		return nil
	}
	return []module{{path: kubernetesPath, version: version, staging: true}}
}

func withKubernetes(version string) []module {
	if !sameMinor(version, awsControllerVersion) {
		return nil
	}
	return []module{{path: awsPath, version: awsControllerVersion}}
}

func sameMinor(a, b string) bool {
	return slices.Equal(strings.SplitN(a, ".", 3)[:2], strings.SplitN(b, ".", 3)[:2])
}

// aws returns the cloud controller manager, and the program that authenticates kubelets to the cloud's registries.
func aws(kubernetes string) []source {
	const at = awsPath
	one := func(name, version string) module {
		return module{path: at, version: version, resolvedWith: withAWS(kubernetes), programs: []program{{name, at + "/cmd/" + name}},
			stamps: []string{"k8s.io/component-base/version.gitVersion=" + version, "main.gitVersion=" + version}}
	}
	const controller, credentials = "aws-cloud-controller-manager", "ecr-credential-provider"
	return []source{
		{name: credentials, version: awsCredentialsVersion, recipe: instead{one(credentials, awsCredentialsVersion), one(credentials, awsCredentialsNear)}},
		{name: "cloud-provider-aws", version: awsControllerVersion, recipe: modules{one(controller, awsControllerVersion)}},
	}
}
