package main

import (
	"fmt"
	"maps"
	"slices"
)

// clouds are, by the name of a cloud, what its clusters run besides.
func clouds() map[string][]source { return map[string][]source{"aws": aws(), "gce": gce()} }

// sourcesFor lists what a cluster of a Kubernetes version runs on a cloud; none is "".
func sourcesFor(version, cloud string) ([]source, error) {
	more, ok := clouds()[cloud]
	if !ok && cloud != "" {
		return nil, fmt.Errorf("there is nothing to build for the cloud %q; there is for %v", cloud, slices.Sorted(maps.Keys(clouds())))
	}
	return append(more, sources(version)...), nil
}

// The versions that kops names in clusters on AWS, and the one near the second that is
// published as a module.
const (
	awsControllerVersion  = "v1.36.1"
	awsCredentialsVersion = "v1.31.7"
	awsCredentialsNear    = "v1.31.0"
)

// aws is the cloud controller manager, and what logs kubelets in to the cloud's registries.
func aws() []source {
	const at = "k8s.io/cloud-provider-aws"
	one := func(name, version string) module {
		return module{path: at, version: version, programs: []program{{name, at + "/cmd/" + name}},
			stamps: []string{"k8s.io/component-base/version.gitVersion=" + version, "main.gitVersion=" + version}}
	}
	const controller, credentials = "aws-cloud-controller-manager", "ecr-credential-provider"
	return []source{
		{name: credentials, version: awsCredentialsVersion, recipe: instead{one(credentials, awsCredentialsVersion), one(credentials, awsCredentialsNear)}},
		{name: "cloud-provider-aws", version: awsControllerVersion, recipe: modules{one(controller, awsControllerVersion)}},
	}
}
