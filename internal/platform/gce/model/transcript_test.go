package model

import (
	"slices"
	"testing"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/render/terraform/schematest"
	"kops.local/kops/internal/platform/gce/kinds"
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
  kubernetesApiAccess: [0.0.0.0/0]
  channel: stable
  cloudProvider: gce
  configBase: s3://bucket/a.example.com
  dnsZone: example.com
  etcdClusters:
  - name: main
    etcdMembers: [{name: a, instanceGroup: cp}]
  - name: events
    etcdMembers: [{name: a, instanceGroup: cp}]
  kubernetesVersion: 1.36.0
  networking: {cni: {}}
  project: testproject
  sshAccess: [0.0.0.0/0]
  subnets:
  - {name: us-test1, region: us-test1, cidr: 10.0.16.0/20, type: Public}
`, Groups: `
cp: {role: Master, machineType: e2-medium, image: ubuntu-os-cloud/ubuntu-1, subnets: [us-test1], zones: [us-test1-a]}
nodes: {role: Node, machineType: e2-medium, image: ubuntu-os-cloud/ubuntu-1, subnets: [us-test1], zones: [us-test1-a]}
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
		doc, err := Terraform(in, g)
		if err != nil {
			t.Fatal(err)
		}
		files, err := terraform.Render(doc)
		if err != nil {
			t.Fatal(err)
		}
		schematest.Validate(t, files)
		printed := modeltest.Print(g, show, "Lifecycle", "Network", "UpdatePolicy", "ListResults")
		if slices.Contains(show, "terraform") {
			printed += modeltest.WithoutResources(string(files[terraform.MainFile]))
		}
		return printed
	})
}
