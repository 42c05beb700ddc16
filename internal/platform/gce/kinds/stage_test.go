package kinds

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"kops.local/kops/internal/platform/gce/gcecloud"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/emulator"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcename"
)

const (
	testCluster = "k.example.com"
	testProject = "testproject"
	testRegion  = "us-test1"
	testZone    = "us-test1-a"
)

// stopwatch is a clock that goes on when somebody sleeps.
type stopwatch struct {
	mu  sync.Mutex
	now time.Time
}

func (s *stopwatch) time() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *stopwatch) sleep(ctx context.Context, d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
	return ctx.Err()
}

// stage is a Google Cloud of its own, and a client of it.
type stage struct {
	*testing.T
	*emulator.Emulator
	c     *Client
	clock *stopwatch
}

// play starts an emulator whose operations take two seconds.
func play(t *testing.T, o emulator.Options) *stage {
	t.Helper()
	clock := &stopwatch{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	o.Now, o.Sleep, o.Latency, o.Boot = clock.time, clock.sleep, 2*time.Second, 9*time.Second
	o.OnWrong = func(err error) { t.Errorf("the emulator is wrong: %v", err) }
	e, err := emulator.New(o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	api, err := gceapi.Connect(t.Context(), gceapi.Config{Project: testProject, Region: testRegion, Endpoint: server.URL, HTTPClient: http.DefaultClient, UserAgent: "test", Sleep: clock.sleep})
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(*api)
	c.Buckets = []string{"state"}
	return &stage{t, e, c, clock}
}

// build makes an object that others need, with its first setters.
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

// observed lists a kind as it is now.
func observed[T any](s *stage, k *resource.Kind[T, *Client], scope resource.Scope) []*T {
	s.Helper()
	list, err := k.List(s.Context(), s.c, scope)
	if err != nil {
		s.Fatal(err)
	}
	return list
}

// keys are those of what is observed.
func keys[T any](s *stage, k *resource.Kind[T, *Client], scope resource.Scope) []string {
	s.Helper()
	var out []string
	for _, o := range observed(s, k, scope) {
		out = append(out, k.Key(o))
	}
	return out
}

func lit(s string) resource.Value { return resource.Lit(s) }

// object is the name of an object of the cluster.
func object(name string) string { return gcename.Suffixed(name, testCluster) }

// ground is what most objects of a cluster stand on.
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

// template is that of an instance group of the cluster.
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

// group is a managed group of a template.
func (g ground) group(name string, template *InstanceTemplate, size int) InstanceGroupManager {
	return InstanceGroupManager{Name: gcename.Group(name, testZone, testCluster), Zone: testZone, BaseName: name, Template: GroupVersion{lit(template.ID)}, TargetSize: size,
		UpdatePolicy: UpdatePolicy{MinimalAction: "REPLACE", Type: "OPPORTUNISTIC"}, ListResults: "PAGINATED"}
}
