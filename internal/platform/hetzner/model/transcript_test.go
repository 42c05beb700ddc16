package model

import (
	"slices"
	"testing"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/platform/hetzner/kinds"
	"kops.local/kops/internal/test/modeltest"
)

// aCluster is the base cluster that transcripts change.
func aCluster() modeltest.Base {
	return modeltest.Base{Name: "a.example.com", Cluster: `
apiVersion: kops.k8s.io/v1alpha2
kind: Cluster
metadata:
  name: a.example.com
spec:
  api: {loadBalancer: {type: Public}}
  kubernetesApiAccess: [0.0.0.0/0]
  channel: stable
  cloudProvider: hetzner
  configBase: s3://bucket/a.example.com
  etcdClusters:
  - name: main
    etcdMembers: [{name: a, instanceGroup: cp}]
  - name: events
    etcdMembers: [{name: a, instanceGroup: cp}]
  kubernetesVersion: 1.36.0
  networkCIDR: 10.0.0.0/16
  networking: {cni: {}}
  nonMasqueradeCIDR: 100.64.0.0/10
  sshAccess: [198.51.100.7/24, 2001:db8::/32]
  subnets:
  - {name: fsn1, zone: fsn1, type: Public}
  topology: {dns: {type: None}}
`, Groups: `
cp: {role: Master, machineType: cx23, image: ubuntu-24.04, subnets: [fsn1], minSize: 1, maxSize: 1}
nodes: {role: Node, machineType: cx33, image: ubuntu-24.04, subnets: [fsn1], minSize: 2, maxSize: 4}
`}
}

// TestTranscripts prints the nodes of clusters, or the error.
func TestTranscripts(t *testing.T) {
	aCluster().Run(t, func(t *testing.T, documents []byte, show []string) string {
		in := read(t, documents)
		in.SSHKeys = []string{"ssh-rsa AAAA", "ssh-ed25519 BBBB a@b\n"}
		g := &graph.Graph{}
		if err := Build(in, g); err != nil {
			return "error: " + err.Error() + "\n"
		}
		modeltest.CheckPlan(t, g, kinds.All())
		printed := modeltest.Print(g, show)
		if in.Cluster.Spec.Networking.NetworkID != "" {
			in.Facts.Of("hetzner").Own = []byte(`{"networkNumber": "7"}`)
		}
		files := rendered(t, in, g)
		if slices.Contains(show, "terraform") {
			printed += modeltest.WithoutResources(string(files[terraform.MainFile]))
		}
		return printed
	})
}
