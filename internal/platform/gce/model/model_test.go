package model

import (
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/gce/kinds"
	"kops.local/kops/internal/platform/zones"
	"kops.local/kops/internal/spec/facts"
)

// balanced is a spec with load balancers and no DNS names, so that dedicated API servers must be
// given addresses.
const balanced = "api: {loadBalancer: {type: Internal}}\ntopology: {dns: {type: None}}\nsubnets: [{name: us-test1, region: us-test1, cidr: 10.0.16.0/20, type: Private}, {name: b, region: us-test1, cidr: 10.0.32.0/20, type: Private}]"

// apiServers adds a group of machines that run only an API server.
func apiServers(in *platform.Model, subnet string, zones ...string) {
	g := *in.Groups[0]
	g.Name, g.Spec.Role, g.Spec.Zones, g.Spec.Subnets = "apiservers", api.RoleAPIServer, zones, []string{subnet}
	in.Groups = append(in.Groups, &g)
}

// A mistake that validation does not find, or an omission of the caller, is an error that says what
// to do.
func TestWhatCannotBeModelledIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		do   func(*platform.Model)
		want string
	}{
		"another cloud": {do: func(in *platform.Model) { in.Cluster.Spec.CloudProvider.GCE = nil }, want: "cluster a.example.com is not on GCE"},
		"no project":    {do: func(in *platform.Model) { in.Cluster.Spec.CloudProvider.GCE.Project = "" }, want: "spec.project is empty; set it to the ID of the project"},
		"no region":     {do: func(in *platform.Model) { in.Cluster.Spec.Networking.Subnets[0].Region = "" }, want: "no subnet of cluster a.example.com has a region; set spec.subnets[].region"},
		"two regions":   {spec: balanced, do: func(in *platform.Model) { in.Cluster.Spec.Networking.Subnets[1].Region = "r-2" }, want: "subnet b is in region r-2, but others are in us-test1"},
		"no subnet":     {do: func(in *platform.Model) { in.Groups[1].Spec.Subnets = nil }, want: "group nodes: its machines must be in one subnet, but spec.subnets lists 0"},
		"two subnets":   {spec: balanced, do: func(in *platform.Model) { in.Groups[1].Spec.Subnets = []string{"us-test1", "b"} }, want: "but spec.subnets lists 2"},
		"other subnet":  {do: func(in *platform.Model) { in.Groups[1].Spec.Subnets = []string{"c"} }, want: "group nodes: the cluster has no subnet c"},
		"no zone":       {do: func(in *platform.Model) { in.Groups[1].Spec.Zones = nil }, want: "group nodes has no zone; set spec.zones"},
		"no member":     {do: func(in *platform.Model) { in.Cluster.Spec.EtcdClusters[0].EtcdMembers[0].InstanceGroup = nil }, want: `member a of etcd main: the cluster has no instance group ""`},
		"no DNS zone":   {do: func(in *platform.Model) { in.Facts = nil }, want: "project testproject has no zone example.com in Cloud DNS; create it, or set spec.dnsZone to another zone"},
		"a balancer of two zones": {spec: balanced, do: func(in *platform.Model) { apiServers(in, "us-test1", "us-test1-b", "us-test1-a") },
			want: "group apiservers is in the zones us-test1-a, us-test1-b, but the load balancer needs each group's machines in one zone"},
		"etcd at two addresses": {spec: balanced, do: func(in *platform.Model) { apiServers(in, "b", "us-test1-b") }, want: "API servers reach etcd at one address, but the machines of the control plane are in 2 subnets"},
	} {
		t.Run(name, func(t *testing.T) {
			in := changedCluster(t, c.spec)
			c.do(&in)
			if err := Build(in, &graph.Graph{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// Of several zones with the same name, the one with the cluster's DNS type is used, or the only
// one, or the one with the ID in the spec.
func TestTheZoneOfTheClustersNames(t *testing.T) {
	public, private, other := facts.DNSZone{Name: "example.com", ID: "1"}, facts.DNSZone{Name: "example.com", ID: "2", Private: true}, facts.DNSZone{Name: "com", ID: "3"}
	for name, c := range map[string]struct {
		zone, dns string
		zones     []facts.DNSZone
		want      string
	}{
		"public":                  {"example.com", "Public", []facts.DNSZone{other, private, public}, "1"},
		"public, first":           {"example.com", "Public", []facts.DNSZone{public, private}, "1"},
		"private":                 {"example.com", "Private", []facts.DNSZone{public, private}, "2"},
		"private in a public one": {"example.com", "Private", []facts.DNSZone{public}, "1"},
		"final dot":               {"example.com.", "Public", []facts.DNSZone{public}, "1"},
		"number":                  {"3", "Public", []facts.DNSZone{public, other}, "3"},
	} {
		in := changedCluster(t, "dnsZone: \""+c.zone+"\"\ntopology: {dns: {type: "+c.dns+"}}")
		in.Facts = &facts.Facts{Clouds: map[string]*facts.Cloud{"gce": {DNSZones: c.zones}}}
		n, _ := built(t, in).Get(kinds.Placeholders.At("api.internal.a.example.com-A"))
		if p, ok := n.Want.(*zones.Placeholder); !ok || p.Zone != c.want {
			t.Errorf("%s: %+v", name, n.Want)
		}
	}
}

// The autoscaler's input contains the architecture of a group's machines, if the image's
// architecture is known.
func TestTheAutoscalerGetsTheArchitecture(t *testing.T) {
	in := changedCluster(t, "")
	in.Facts.Of("gce").Images = map[string]facts.Image{"ubuntu-os-cloud/ubuntu-1": {Architecture: facts.ArchARM}}
	n, _ := built(t, in).Get(kinds.InstanceTemplates.At("nodes-a-example-com"))
	if got, _ := n.Want.(*kinds.InstanceTemplate).Metadata["kube-env"].Value().Known(); got != "AUTOSCALER_ENV_VARS: os_distribution=ubuntu;arch=arm64;os=linux" {
		t.Error(got)
	}
}
