package hetzner

import (
	"strings"
	"testing"

	"kops.local/kops/internal/platform/hetzner/spec"
	"kops.local/kops/internal/test/cloudsuite"
)

const (
	location = "fsn1"
	name     = cloudsuite.Name
	image    = "ubuntu-24.04"
)

func TestMain(m *testing.M) { cloudsuite.Main(m) }

func TestCloud(t *testing.T) { cloudsuite.Run(t, cloud()) }

func BenchmarkRequests(b *testing.B) { cloudsuite.Benchmark(b, cloud()) }

// cloud describes Hetzner Cloud, as its emulator stands in for it. It has no Balancers: every cluster has a
// load balancer of the API, because machines find the API by no other address.
func cloud() *cloudsuite.Cloud {
	topologies := map[string][]string{}
	for title, options := range map[string]string{
		"an internal balancer, private":  "--api-loadbalancer-type internal --topology private",
		"Cilium":                         "--networking cilium",
		"Cilium with an etcd of its own": "--networking cilium-etcd --api-loadbalancer-type public",
		"three control planes":           "--control-plane-count 3 --node-count 4",
		"another network zone":           "--zones ash",
	} {
		topologies[title] = strings.Fields(options)
	}
	return &cloudsuite.Cloud{
		Platform: spec.Platform(), Open: func(t testing.TB) cloudsuite.Account { return newProject(t).open(t) },
		Zones: []string{location}, Nameless: []string{"--dns", "none"},
		Large: topologies["an internal balancer, private"],
		Group: func(int) string {
			return "  image: " + image + "\n  machineType: cx23\n  subnets:\n  - " + location + "\n"
		},
		Budgets: map[string]int{
			"1 + 1: update --yes": 115, "1 + 1: preview without changes": 25, "1 + 1, DNS none: preview": 25, "1 + 1: delete --yes": 63,
			"3 + 63: update --yes": 700, "3 + 63: preview without changes, cold": 30, "3 + 63: preview without changes, cached": 29, "3 + 63: get all": 3,
			"3 + 63: preview of a roll, none outdated": 6, "3 + 63: preview of a roll, all outdated": 12, "3 + 63: delete --yes": 520,
		},
		Places: 16, Turns: 2, WithoutNames: withoutNames,
		Network: "hcloud_network", First: "post networks",
		Edit: cloudsuite.Edit{Field: "spec.machineType=cx43", Shows: "hcloud_server/nodes-" + location, Hides: "hcloud_network/"},
		Type: "cx33", NoType: "cx99",
		More: []string{"--subnet", location}, Changed: changed(), Topologies: topologies, Shared: shared(),
		Deny:      deny,
		Creations: []string{"Read & Write"}, Deletions: []string{"Read & Write"},
		FillUp: fillUp, Quotas: []string{"volume_limit", "firewall_limit", "higher limit"},
		Block: block, Release: release,
		Tests: map[string]func(*cloudsuite.World){
			"the balancer's public address comes and goes": changeAccess,
			"a location without capacity":                  fillLocation,
			"a token that may only read":                   keepToken,
		},
		Cannot: map[string]string{"one zone more": "the machines of a group are in one location"},
	}
}
