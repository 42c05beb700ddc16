package model

import (
	"slices"
	"testing"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/render/terraform/schematest"
	"kops.local/kops/internal/platform/aws/kinds"
	awsspec "kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/test/modeltest"
)

// baseName is the name of the cluster that transcripts change.
const baseName = "a.example.com"

// base is the spec of that cluster.
const base = `
apiVersion: kops.k8s.io/v1alpha2
kind: Cluster
metadata:
  name: a.example.com
spec:
  kubernetesApiAccess: [0.0.0.0/0]
  channel: stable
  cloudProvider: aws
  configBase: s3://bucket/a.example.com
  etcdClusters:
  - name: main
    etcdMembers: [{name: a, instanceGroup: cp}]
  - name: events
    etcdMembers: [{name: a, instanceGroup: cp}]
  kubernetesVersion: 1.36.0
  networkCIDR: 172.20.0.0/16
  networking: {cni: {}}
  nonMasqueradeCIDR: 100.64.0.0/10
  sshAccess: [0.0.0.0/0]
  subnets:
  - {name: us-test-1a, cidr: 172.20.32.0/19, type: Public, zone: us-test-1a}
`

// baseGroups are its groups, unless a transcript has its own.
const baseGroups = `
cp: {role: Master, machineType: m3.medium, image: i, subnets: [us-test-1a]}
nodes: {role: Node, machineType: t2.medium, image: i, subnets: [us-test-1a]}
`

// aCluster returns the cluster that transcripts change.
func aCluster() modeltest.Base {
	return modeltest.Base{Name: baseName, Cluster: base, Groups: baseGroups}
}

// TestTranscripts prints the nodes of clusters, or the error.
func TestTranscripts(t *testing.T) {
	aCluster().Run(t, func(t *testing.T, documents []byte, show []string) string {
		in := read(t, documents)
		setAddresses(t, in.Facts)
		g := &graph.Graph{}
		if err := Build(in, g); err != nil {
			return "error: " + err.Error() + "\n"
		}
		modeltest.CheckPlan(t, g, kinds.All())
		printed := modeltest.Print(g, show, "TagSpecifications", "InstanceGroup")
		doc, err := Terraform(in, g)
		if err != nil {
			return printed + "terraform: " + err.Error() + "\n"
		}
		configuration, err := terraform.Render(doc)
		if err != nil {
			t.Fatal(err)
		}
		schematest.Validate(t, configuration)
		if slices.Contains(show, "terraform") {
			printed += modeltest.WithoutResources(string(configuration[terraform.MainFile]))
		}
		return printed
	})
}

// setAddresses adds an address to the account's facts.
func setAddresses(t *testing.T, f *facts.Facts) {
	t.Helper()
	own, err := facts.OwnAs[awsspec.Facts](f.Of("aws"))
	if err != nil {
		t.Fatal(err)
	}
	own.ElasticIPs = map[string]string{"198.51.100.7": "eipalloc-7"}
	if err := f.Of("aws").SetOwn(own); err != nil {
		t.Fatal(err)
	}
}
