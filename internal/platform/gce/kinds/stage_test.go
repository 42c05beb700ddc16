package kinds

import (
	"testing"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/emulator"
	"kops.local/kops/internal/platform/gce/emulator/emulatortest"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/standin/standintest"
	"kops.local/kops/internal/test/enginetest"
)

const (
	testCluster = "k.example.com"
	testProject = emulatortest.Project
	testRegion  = emulatortest.Region
	testZone    = emulatortest.Zone
)

// stage is an emulated Google Cloud, a client for it, and the engine on it.
type stage struct {
	*testing.T
	*emulator.Emulator
	*enginetest.Engine
	c     *Client
	clock *standintest.Clock
}

// play starts an emulator whose operations take two seconds.
func play(t *testing.T, o emulator.Options) *stage {
	t.Helper()
	cloud := emulatortest.Start(t, o)
	c := NewClient(*cloud.Clients())
	c.Buckets = []string{"state"}
	e := &enginetest.Engine{TB: t, Client: func() any { return c }, Snapshot: func() any { return c.Snapshot() }, Kinds: All(), Clock: cloud.ForEngine()}
	return &stage{t, cloud.Emulator, e, c, cloud.Clock}
}

// build creates an object that others need, and applies its initial setters.
func build[T any](s *stage, k *resource.Kind[T, *Client], want T) *T {
	s.Helper()
	e := k.Erase()
	n := k.New("x", want)
	made, err := e.Create(s.Context(), s.c, n.Want)
	if err == nil {
		made, err = e.Set(s.Context(), s.c, made, n.Want, e.Schema().Diff(n.Want, made))
	}
	if err == nil {
		err = e.Ready(s.Context(), s.c, made)
	}
	if err != nil {
		s.Fatalf("make %s: %v", k.Name, err)
	}
	return made.(*T)
}

// observed lists the current objects of a kind.
func observed[T any](s *stage, k *resource.Kind[T, *Client], scope resource.Scope) []*T {
	s.Helper()
	list, err := k.List(s.Context(), s.c, scope)
	if err != nil {
		s.Fatal(err)
	}
	return list
}

// keys returns the keys of the observed objects.
func keys[T any](s *stage, k *resource.Kind[T, *Client], scope resource.Scope) []string {
	s.Helper()
	var out []string
	for _, o := range observed(s, k, scope) {
		out = append(out, k.Key(o))
	}
	return out
}

func lit(s string) resource.Value { return resource.Lit(s) }

// object returns the full name of an object of the cluster.
func object(name string) string { return gcename.Suffixed(name, testCluster) }

// ground holds what most objects of a cluster depend on.
type ground struct {
	network    *Network
	subnetwork *Subnetwork
}

func (s *stage) ground() ground {
	s.Helper()
	n := build(s, &Networks, Network{Name: gcename.Network(testCluster)})
	return ground{n, build(s, &Subnetworks, Subnetwork{Name: object("us-test1"), Network: lit(n.ID), Region: testRegion, CIDR: "10.0.16.0/20", StackType: "IPV4_ONLY",
		Secondary: []SecondaryRange{{"pods-k-example-com", "10.4.0.0/14"}}})}
}

// template returns the template of an instance group of the cluster.
func (g ground) template(group string) InstanceTemplate {
	t := template(testCluster, group, lit(g.network.ID), lit(g.subnetwork.ID))
	t.Interfaces[0].Aliases = []AliasRange{{CIDR: "/24", Range: "pods-k-example-com"}}
	return t
}

func template(cluster, group string, network, subnetwork resource.Value) InstanceTemplate {
	return InstanceTemplate{Prefix: gcename.TemplatePrefix(group, cluster), MachineType: "e2-medium", Tags: []string{gcename.Tag(gcename.Node, cluster)},
		Labels: map[string]string{gcecloud.ClusterLabel: gcecloud.Label(cluster), "k8s-io-instance-group": group},
		Metadata: map[string]resource.Content{
			gcecloud.MetadataCluster: resource.Text(lit(cluster)), gcecloud.MetadataGroup: resource.Text(lit(group)), "user-data": resource.Text(lit("#!/bin/bash\necho hello\n"))},
		Disks: []TemplateDisk{{AutoDelete: true, Boot: true, DeviceName: "persistent-disks-0", SizeGiB: 128, DiskType: "pd-standard", Mode: "READ_WRITE", Type: "PERSISTENT",
			SourceImage: "https://www.googleapis.com/compute/v1/projects/ubuntu-os-cloud/global/images/ubuntu-2404-noble-amd64-v20260101"}},
		Interfaces: []TemplateInterface{{Network: network, Subnetwork: subnetwork, StackType: "IPV4_ONLY", Access: &AccessConfig{}}},
		Scheduling: Scheduling{AutomaticRestart: true, OnHostMaintenance: "MIGRATE", ProvisioningModel: "STANDARD"},
		Account:    TemplateAccount{Email: lit("default"), Scopes: []string{"https://www.googleapis.com/auth/compute", "https://www.googleapis.com/auth/monitoring"}}}
}

// group returns a managed group that uses a template.
func (g ground) group(name string, template *InstanceTemplate, size int) InstanceGroupManager {
	return InstanceGroupManager{Name: gcename.Group(name, testZone, testCluster), Zone: testZone, BaseName: name, Template: GroupVersion{lit(template.ID)}, TargetSize: size,
		UpdatePolicy: UpdatePolicy{MinimalAction: "REPLACE", Type: "OPPORTUNISTIC"}, ListResults: "PAGINATED"}
}
