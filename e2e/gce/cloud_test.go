package gce

import (
	"strings"
	"testing"

	gcespec "kops.local/kops/internal/platform/gce/spec"
	"kops.local/kops/internal/test/cloudsuite"
)

const (
	bucket  = "state-store"
	project = "testproject"
	host    = "hostproject" // shares networks
	region  = "us-test1"
	name    = cloudsuite.Name
	image   = "ubuntu-os-cloud/ubuntu-2404-noble-amd64-v20260615"
)

func TestMain(m *testing.M) { cloudsuite.Main(m) }

func TestCloud(t *testing.T) { cloudsuite.Run(t, cloud()) }

func BenchmarkRequests(b *testing.B) { cloudsuite.Benchmark(b, cloud()) }

// cloud describes Google Cloud, as its emulator stands in for it.
func cloud() *cloudsuite.Cloud {
	zones := []string{region + "-a", region + "-b", region + "-c"}
	topologies := map[string][]string{}
	for title, options := range map[string]string{
		"a public balancer":                 "--api-loadbalancer-type public",
		"an internal balancer, private":     "--api-loadbalancer-type internal --topology private --bastion",
		"addresses of the network for pods": "--networking gcp",
		"kubenet":                           "--networking kubenet",
		"Cilium with an etcd of its own":    "--networking cilium-etcd --dns none",
		"three control planes":              "--zones " + strings.Join(zones, ",") + " --control-plane-count 3 --node-count 4",
		"a service account of the user's":   "--gce-service-account default",
		"public names":                      "--dns public",
	} {
		topologies[title] = strings.Fields(options)
	}
	return &cloudsuite.Cloud{
		Platform: gcespec.Platform(), Open: open,
		Options: []string{"--project", project}, Zones: zones, Nameless: []string{"--dns", "none"},
		Large: []string{"--topology", "private", "--bastion"},
		Group: func(i int) string {
			return "  image: " + image + "\n  machineType: e2-medium\n  subnets:\n  - " + region + "\n  zones:\n  - " + zones[i%3] + "\n"
		},
		Places: 30, WithoutNames: withoutNames,
		Network: "google_compute_network", First: "post compute/v1/projects/global/networks",
		Edit: cloudsuite.Edit{Field: "spec.machineType=e2-small", Shows: "google_compute_instance_template/", Hides: "google_compute_network/"},
		Type: "e2-standard-2", NoType: "e9-medium",
		More: []string{"--subnet", region, "--zone", zones[1] + "," + zones[2]}, OneZoneMore: "spec.zones=" + strings.Join(zones, ","),
		Changed: changed(), Topologies: topologies, Balancers: []cloudsuite.Balancer{{Topology: "public", Type: "Public"}, {Topology: "private", Type: "Internal"}}, Shared: shared(),
		Named: []string{"--dns", "public"},
		Deny:  func(w *cloudsuite.World, rights ...string) { of(w).Deny(rights...) },
		Reads: strings.Fields(`dns.managedZones.list compute.machineTypes.list compute.subnetworks.list compute.firewalls.list compute.instanceTemplates.list
compute.instanceGroupManagers.list resourcemanager.projects.getIamPolicy`),
		Creations: []string{
			"compute.networks.create compute.disks.create iam.serviceAccounts.create dns.changes.create",
			"compute.subnetworks.create compute.firewalls.create resourcemanager.projects.setIamPolicy",
			"compute.instanceTemplates.create",
			"compute.instanceGroupManagers.create",
		},
		Deletions: []string{
			"compute.instanceGroupManagers.delete compute.firewalls.delete compute.disks.delete dns.changes.create",
			"compute.instanceTemplates.delete",
			"compute.subnetworks.delete iam.serviceAccounts.delete",
			"compute.networks.delete",
		},
		FillUp: fillUp, Quotas: []string{"FIREWALLS", "INSTANCE_TEMPLATES", "higher"},
		Block: block, Release: release, Tests: map[string]func(*cloudsuite.World){
			"pods in a shared subnet need its range": needRange,
			"a cluster of kOps":                      func(w *cloudsuite.World) { takeOver(w, false) },
			"a cluster of kOps whose store is lost":  func(w *cloudsuite.World) { takeOver(w, true) },
		},
	}
}
