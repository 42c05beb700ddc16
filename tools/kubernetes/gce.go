package main

// gceVersion is the version that kops uses in clusters on GCE. Google does not publish it as a
// module, only its provider; gce/go.mod has the newest published version of that.
const gceVersion = "v35.0.0"

// gce returns the cloud controller manager, and the program that authenticates kubelets to the cloud's registries.
func gce() []source {
	one := func(name, program string) source {
		return source{name: name, version: gceVersion, recipe: ownModule{folder: "gce", program: program, version: gceVersion}}
	}
	const credentials = "auth-provider-gcp"
	return []source{one(credentials, credentials), one("cloud-provider-gcp", "cloud-controller-manager")}
}
