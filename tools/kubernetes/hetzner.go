package main

// hcloudVersion is the version of the cloud controller that kops uses in clusters on Hetzner Cloud.
const hcloudVersion = "v1.31.0"

// hetzner returns the cloud controller manager.
func hetzner() []source {
	return []source{{name: "cloud-provider-hcloud", version: hcloudVersion, recipe: ownModule{folder: "hcloud", program: "hcloud-cloud-controller-manager", version: hcloudVersion}}}
}
