package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/fill"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/spec/validate"
	"kops.local/kops/internal/test/spectest"
)

// cloud returns the facts that Google reports in tests.
func cloud(t *testing.T) *facts.Cloud {
	t.Helper()
	c := &facts.Cloud{Region: "us-test1", Zones: []string{"us-test1-a", "us-test1-b", "us-test1-c"}, DNSZones: []facts.DNSZone{{Name: "example.com", ID: "1"}},
		Subnets: map[string]facts.Subnet{"shared": {Network: "host/common", CIDR: "10.7.0.0/20"}}}
	if err := c.SetOwn(Facts{Project: "of-environment", Families: map[string]string{"debian-cloud/debian-13": "debian-cloud/debian-13-trixie-v20260601"}}); err != nil {
		t.Fatal(err)
	}
	return c
}

// describeNew describes a new cluster with some options.
func describeNew(t *testing.T, o newcluster.Options, c *facts.Cloud) (*api.Cluster, []*api.InstanceGroup, diag.List) {
	t.Helper()
	p := Platform()
	o.CloudProvider = "gce"
	return newcluster.New(o, newcluster.World{Platform: p.ForNew(), Complete: p.ForComplete(), Facts: &facts.Facts{Clouds: map[string]*facts.Cloud{"gce": c}}, Channel: spectest.Stable(t), KopsVersion: "1.37.0"})
}

func completeCluster(t *testing.T, cluster *api.Cluster, groups []*api.InstanceGroup, c *facts.Cloud) *complete.Cluster {
	t.Helper()
	p := Platform()
	done, wrong := complete.Complete(complete.Input{Platform: p.ForComplete(), Cluster: cluster, Groups: groups, Facts: &facts.Facts{Clouds: map[string]*facts.Cloud{"gce": c}}, Channel: spectest.Stable(t), KopsVersion: "1.37.0"})
	if err := wrong.Err(); err != nil {
		t.Fatal(err)
	}
	return done
}

func TestANewClusterIsOfTheProjectThatIsNamed(t *testing.T) {
	for _, c := range []struct {
		own  map[string]string
		want api.GCESpec
	}{
		{map[string]string{"project": "mine", "gce-service-account": "nodes@mine.iam.gserviceaccount.com"}, api.GCESpec{Project: "mine", ServiceAccount: "nodes@mine.iam.gserviceaccount.com"}},
		{nil, api.GCESpec{Project: "of-environment"}},
	} {
		cluster, _, findings := describeNew(t, newcluster.Options{ClusterName: "a.example.com", Zones: []string{"us-test1-a"}, Own: c.own}, cloud(t))
		if findings.Err() != nil {
			t.Fatal(findings)
		}
		if d := cmp.Diff(c.want, *cluster.Spec.CloudProvider.GCE); d != "" {
			t.Errorf("%v (-want +got):\n%s", c.own, d)
		}
	}
}

func TestFamiliesBecomeTheImagesThatTheyHaveNow(t *testing.T) {
	o := newcluster.Options{ClusterName: "a.example.com", Zones: []string{"us-test1-a"}, Topology: "private", Bastion: true,
		Image: "debian-cloud/debian-13", NodeImage: "mine"}
	_, groups, findings := describeNew(t, o, cloud(t))
	if findings.Err() != nil {
		t.Fatal(findings)
	}
	got := map[string]string{}
	for _, g := range groups {
		got[string(g.Spec.Role)] = g.Spec.Image
	}
	const now = "debian-cloud/debian-13-trixie-v20260601"
	if d := cmp.Diff(map[string]string{"ControlPlane": now, "Node": "mine", "Bastion": now}, got); d != "" {
		t.Errorf("images (-want +got):\n%s", d)
	}
}

func TestMachineTypesAndImagesAreOfOneArchitecture(t *testing.T) {
	known := cloud(t)
	known.MachineTypes = map[string]facts.MachineType{}
	for name, arch := range map[string]string{"e2-medium": facts.ArchX86, "e2-micro": facts.ArchX86, "t2a-standard-2": facts.ArchARM, "t2a-standard-1": facts.ArchARM} {
		known.MachineTypes[name] = facts.MachineType{Architectures: []string{arch}}
	}
	known.Images = map[string]facts.Image{"arm": {Architecture: facts.ArchARM}}
	for name, c := range map[string]struct {
		o    newcluster.Options
		want [2]string
	}{
		"nothing is said": {newcluster.Options{}, [2]string{"e2-medium", "ubuntu-os-cloud/ubuntu-2404-noble-amd64-v20260615"}},
		"a type for arm":  {newcluster.Options{NodeSizes: []string{"t2a-standard-2"}}, [2]string{"t2a-standard-2", "ubuntu-os-cloud/ubuntu-2404-noble-arm64-v20260615"}},
		"an image of arm": {newcluster.Options{NodeImage: "arm"}, [2]string{"t2a-standard-2", "arm"}},
	} {
		c.o.ClusterName, c.o.Zones = "a.example.com", []string{"us-test1-a"}
		_, groups, findings := describeNew(t, c.o, known)
		if findings.Err() != nil {
			t.Fatal(findings)
		}
		if s := groups[1].Spec; [2]string{s.MachineType, s.Image} != c.want {
			t.Errorf("%s: %s, %s", name, s.MachineType, s.Image)
		}
	}
}

func TestMachinesThatTakeNoOtherDisksGetHyperdisks(t *testing.T) {
	o := newcluster.Options{ClusterName: "a.example.com", Zones: []string{"us-test1-a"}, ControlPlaneSizes: []string{"c4-standard-4"}, NodeSizes: []string{"n2-standard-4"}}
	cluster, groups, findings := describeNew(t, o, cloud(t))
	if findings.Err() != nil {
		t.Fatal(findings)
	}
	const want = "hyperdisk-balanced"
	if v := groups[0].Spec.RootVolume; v == nil || fill.Or(v.Type, "") != want || groups[1].Spec.RootVolume != nil {
		t.Errorf("the disks are %+v and %+v", v, groups[1].Spec.RootVolume)
	}
	for _, e := range cluster.Spec.EtcdClusters {
		if fill.Or(e.EtcdMembers[0].VolumeType, "") != want {
			t.Errorf("the disk of %s is %q", e.Name, fill.Or(e.EtcdMembers[0].VolumeType, ""))
		}
	}
	o.ControlPlaneVolumeType, o.EtcdStorageType = "hyperdisk-extreme", "hyperdisk-throughput"
	cluster, groups, _ = describeNew(t, o, cloud(t))
	if fill.Or(groups[0].Spec.RootVolume.Type, "") != o.ControlPlaneVolumeType || fill.Or(cluster.Spec.EtcdClusters[0].EtcdMembers[0].VolumeType, "") != o.EtcdStorageType {
		t.Error("another is taken than the one that is asked for")
	}
}

func TestASharedSubnetBringsItsNetworkAndRange(t *testing.T) {
	o := newcluster.Options{ClusterName: "a.example.com", Zones: []string{"us-test1-a"}, SubnetIDs: []string{"shared"}}
	cluster, groups, findings := describeNew(t, o, cloud(t))
	if findings.Err() != nil {
		t.Fatal(findings)
	}
	n := cluster.Spec.Networking
	want := api.ClusterSubnetSpec{Name: "us-test1", Region: "us-test1", ID: "shared", CIDR: "10.7.0.0/20", Type: api.SubnetPublic}
	if d := cmp.Diff([]api.ClusterSubnetSpec{want}, n.Subnets); d != "" || n.NetworkID != "host/common" {
		t.Errorf("network %s, subnets (-want +got):\n%s", n.NetworkID, d)
	}
	if done := completeCluster(t, cluster, groups, cloud(t)); done.Spec.Spec.Networking.Subnets[0].CIDR != "10.7.0.0/20" {
		t.Errorf("completed: %+v", done.Spec.Spec.Networking.Subnets)
	}
}

func TestNewClustersThatGoogleWouldRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		o    newcluster.Options
		want string
	}{
		"a long name":                  {newcluster.Options{ClusterName: strings.Repeat("a", 55) + ".k8s.test", Zones: []string{"us-test1-a"}}, "option:ClusterName: has 64 characters"},
		"two shared subnets":           {newcluster.Options{ClusterName: "a.example.com", Zones: []string{"us-test1-a"}, SubnetIDs: []string{"shared", "b"}}, "option:SubnetIDs: a subnet of GCE spans its region, and a cluster uses only one"},
		"a shared subnet of somewhere": {newcluster.Options{ClusterName: "a.example.com", Zones: []string{"us-test1-a"}, SubnetIDs: []string{"b"}}, "option:NetworkID: the network of the shared subnet is not known"},
		"zones of two regions":         {newcluster.Options{ClusterName: "a.example.com", Zones: []string{"us-test1-a", "us-test2-a"}}, "option:Zones: a cluster on gce must be in one region"},
		"IPv6":                         {newcluster.Options{ClusterName: "a.example.com", Zones: []string{"us-test1-a"}, IPv6: true}, "option:IPv6: IPv6 clusters are not supported on GCE"},
	} {
		if _, _, findings := describeNew(t, c.o, cloud(t)); !strings.HasPrefix(findings.Error(), c.want) {
			t.Errorf("%s: %q", name, findings.Error())
		}
	}
}

func TestAGroupThatJoinsNamesItsZones(t *testing.T) {
	cluster, _, findings := describeNew(t, newcluster.Options{ClusterName: "a.example.com", Zones: []string{"us-test1-a"}}, cloud(t))
	if findings.Err() != nil {
		t.Fatal(findings)
	}
	p := Platform()
	w := newcluster.World{Platform: p.ForNew(), Complete: p.ForComplete(), Channel: spectest.Stable(t)}
	if _, findings := newcluster.NewGroup(newcluster.GroupOptions{Name: "more"}, cluster, w); !strings.HasPrefix(findings.Error(), "option:GroupZones: ") {
		t.Errorf("without zones: %q", findings.Error())
	}
	g, findings := newcluster.NewGroup(newcluster.GroupOptions{Name: "more", Zones: []string{"us-test1-b"}}, cluster, w)
	if findings.Err() != nil {
		t.Fatal(findings)
	}
	want := api.InstanceGroupSpec{Role: api.RoleNode, Subnets: []string{"us-test1"}, Zones: []string{"us-test1-b"}, MachineType: "e2-medium",
		Image: "ubuntu-os-cloud/ubuntu-2404-noble-amd64-v20260615", MinSize: g.Spec.MinSize, MaxSize: g.Spec.MaxSize,
		NodeLabels: map[string]string{"kops.k8s.io/instancegroup": "more", "cloud.google.com/metadata-proxy-ready": "true"}}
	if d := cmp.Diff(want, g.Spec); d != "" {
		t.Errorf("group (-want +got):\n%s", d)
	}
}

func TestRangesAreFreeOnes(t *testing.T) {
	o := newcluster.Options{ClusterName: "a.example.com", Zones: []string{"us-test1-a"}}
	for name, c := range map[string]struct {
		networking, network string
		used                []string
		want                []string // of the subnet, of pods and of services
	}{
		"an empty network":     {"cilium", "", nil, []string{"10.0.16.0/20", "", ""}},
		"a network in use":     {"cilium", "host/common", []string{"10.0.0.0/18", "10.0.80.0/20"}, []string{"10.0.64.0/20", "", ""}},
		"pods of the network":  {"gcp", "", nil, []string{"10.0.32.0/19", "10.4.0.0/14", "10.1.0.0/16"}},
		"pods, and others":     {"kindnet", "common", []string{"10.1.0.0/16", "10.4.0.0/16"}, []string{"10.0.32.0/19", "10.8.0.0/14", "10.2.0.0/16"}},
		"a subnet that exists": {"cilium", "", []string{"10.0.16.0/20"}, []string{"10.0.32.0/20", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			known := cloud(t)
			_, network := networkName(o.ClusterName, c.network)
			known.Networks = map[string]facts.Network{network: {CIDRs: c.used}}
			o := o
			o.Networking, o.NetworkID = c.networking, c.network
			cluster, _, findings := describeNew(t, o, known)
			if findings.Err() != nil {
				t.Fatal(findings)
			}
			n := cluster.Spec.Networking
			if d := cmp.Diff(c.want, []string{n.Subnets[0].CIDR, n.PodCIDR, n.ServiceClusterIPRange}); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestNodesOfAnIPv6ClusterGetTheirRangesFromKops(t *testing.T) {
	cluster, groups, findings := describeNew(t, newcluster.Options{ClusterName: "a.example.com", Zones: []string{"us-test1-a"}, Sets: []string{"spec.nonMasqueradeCIDR=::/0"}}, cloud(t))
	if findings.Err() != nil {
		t.Fatal(findings)
	}
	for ipv6, want := range map[bool][]string{true: {"*", "-node-ipam-controller", "-node-route-controller"}, false: {"*"}} {
		c := cluster.DeepCopy()
		if !ipv6 {
			c.Spec.Networking.NonMasqueradeCIDR = "100.64.0.0/10"
		}
		done := completeCluster(t, c, groups, cloud(t))
		if d := cmp.Diff(want, done.Spec.Spec.CloudControllerManager.Controllers); d != "" {
			t.Errorf("IPv6 %v (-want +got):\n%s", ipv6, d)
		}
	}
}

// A cluster whose stored spec has no ranges keeps the range of the subnet that kops created for it.
func TestAnOwnSubnetKeepsItsRange(t *testing.T) {
	cluster, groups, findings := describeNew(t, newcluster.Options{ClusterName: "a.example.com", Zones: []string{"us-test1-a"}}, cloud(t))
	if findings.Err() != nil {
		t.Fatal(findings)
	}
	cluster.Spec.Networking.Subnets[0].CIDR = ""
	known := cloud(t)
	known.Networks = map[string]facts.Network{"a-example-com": {CIDRs: []string{"10.0.48.0/20"}}}
	known.Subnets["us-test1-a-example-com"] = facts.Subnet{Network: "a-example-com", CIDR: "10.0.48.0/20"}
	cluster.Spec.CloudProvider.GCE.Project = "p1"
	if got := completeCluster(t, cluster, groups, known).Spec.Spec.Networking.Subnets[0].CIDR; got != "10.0.48.0/20" {
		t.Errorf("got %s", got)
	}
}

func TestImagesAndNetworksAreOfTheProjectThatIsNamed(t *testing.T) {
	const images = "https://www.googleapis.com/compute/v1/projects/"
	for text, want := range map[string]string{"ubuntu-os-cloud/ubuntu-2404": images + "ubuntu-os-cloud/global/images/ubuntu-2404", "own": images + "mine/global/images/own"} {
		if got := ImageURL(text, "mine"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for id, want := range map[string][2]string{"": {"", "a-example-com"}, "common": {"", "common"}, "host/common": {"host", "common"}, "example.com:host/common": {"example.com:host", "common"}} {
		if project, name := networkName("a.example.com", id); [2]string{project, name} != want {
			t.Errorf("%q: %s, %s", id, project, name)
		}
	}
}

func TestLabelsAreSpelledAsNearAsTheyCan(t *testing.T) {
	for _, c := range []struct{ key, value, wantKey, wantValue string }{
		{"Owner", "John Doe", "owner", "john-doe"}, {"k8s.io/x", "a=b:c", "k8s-io-x", "a-b-c"}, {"9", "", "k-9", ""},
		{"_x", "é", "k-_x", ""}, {strings.Repeat("x", 70), "-", strings.Repeat("x", 63), ""},
	} {
		k, v := fitLabel(c.key, c.value)
		if k != c.wantKey || v != c.wantValue || !isLabelAccepted(k, v) || isLabelAccepted(c.key, c.value) {
			t.Errorf("%s=%s becomes %s=%s", c.key, c.value, k, v)
		}
	}
	if !isLabelAccepted("a-b_9", "9-") {
		t.Error("a good label is refused")
	}
}

func TestTheAutoscalerKnowsTheGroupOfEachZone(t *testing.T) {
	c := &api.Cluster{}
	c.Name, c.Spec.CloudProvider.GCE = "a.example.com", &api.GCESpec{Project: "p1"}
	g := &api.InstanceGroup{Spec: api.InstanceGroupSpec{Zones: []string{"us-test1-c", "us-test1-a", "us-test1-b"}, MinSize: new(int32), MaxSize: new(int32)}}
	g.Name = "nodes"
	*g.Spec.MinSize, *g.Spec.MaxSize = 1, 2
	at := func(zone, name string, least, most int32) traits.ScalingGroup {
		return traits.ScalingGroup{Name: "https://www.googleapis.com/compute/v1/projects/p1/zones/" + zone + "/instanceGroups/" + name, Min: least, Max: most}
	}
	want := []traits.ScalingGroup{at("us-test1-a", "a-nodes-a-example-com", 1, 1), at("us-test1-b", "b-nodes-a-example-com", 0, 1)}
	if d := cmp.Diff(want, gceTraits().Model.ScalingGroups(c, g)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestHealthIsAskedFromOutsideForAPublicLoadBalancerAlone(t *testing.T) {
	for kind, want := range map[api.LoadBalancerType]bool{"": false, api.LoadBalancerInternal: false, api.LoadBalancerPublic: true} {
		c := &api.Cluster{}
		if kind != "" {
			c.Spec.API.LoadBalancer = &api.LoadBalancerAccessSpec{Type: kind}
		}
		if _, everybody := gceTraits().Model.HealthClients(c); everybody != want {
			t.Errorf("%q: %v", kind, everybody)
		}
	}
}

func TestAClusterBeyondItsQuotaIsReported(t *testing.T) {
	o := newcluster.Options{ClusterName: "a.example.com", Zones: []string{"us-test1-a"}, NodeCount: 3, Own: map[string]string{"project": "p1"}}
	cluster, groups, findings := describeNew(t, o, cloud(t))
	if findings.Err() != nil {
		t.Fatal(findings)
	}
	known := cloud(t)
	known.MachineTypes = map[string]facts.MachineType{"e2-medium": {VCPU: 2, Architectures: []string{facts.ArchX86}}}
	done := completeCluster(t, cluster, groups, known)
	nodes := &done.Groups[1].Spec
	nodes.GuestAccelerators = []api.AcceleratorConfig{{AcceleratorType: "nvidia-tesla-t4", AcceleratorCount: 2}}
	check := func(limits map[string]float64) []string {
		o := ownFacts(known)
		o.Quotas = limits
		if err := known.SetOwn(o); err != nil {
			t.Fatal(err)
		}
		p := Platform()
		var out []string
		for _, f := range validate.All(validate.Input{Platform: p.ForValidate(), Cluster: done.Spec, Groups: done.Groups, Strict: true, Facts: &facts.Facts{Clouds: map[string]*facts.Cloud{"gce": known}}}) {
			if f.Rule == "gce-quota" {
				out = append(out, f.Message)
			}
		}
		return out
	}
	// One control plane with a 64 GB disk and three nodes with 128 GB, with two CPUs each; two etcd
	// clusters.
	enough := map[string]float64{"INSTANCES": 4, "CPUS": 8, "DISKS_TOTAL_GB": 448, "SSD_TOTAL_GB": 40, "GPUS_ALL_REGIONS": 6}
	if got := check(enough); len(got) > 0 {
		t.Errorf("enough: %q", got)
	}
	if got := check(nil); len(got) > 0 {
		t.Errorf("limits that are not known: %q", got)
	}
	for metric, limit := range enough {
		less := maps.Clone(enough)
		less[metric] = limit - 1
		if got, want := check(less), fmt.Sprintf("needs %.0f of the quota %s in us-test1, but the project has only %.0f", limit, metric, limit-1); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q", metric, got)
		}
	}
}

func TestProcessorsOfEachSeriesHaveALimitOfTheirOwn(t *testing.T) {
	for machine, want := range map[string]string{"e2-medium": "CPUS", "n1-standard-1": "CPUS", "custom-4-8192": "CPUS", "n2d-standard-2": "N2D_CPUS", "c3-highcpu-4": "C3_CPUS"} {
		if got := cpuMetric(machine); got != want {
			t.Errorf("%s: %s", machine, got)
		}
	}
}

func TestFactsThatNobodyKnowsAreRefused(t *testing.T) {
	if err := Platform().CheckFacts(&facts.Cloud{Own: json.RawMessage(`{"projekt": "p"}`)}); err == nil || !strings.Contains(err.Error(), "projekt") {
		t.Errorf("got %v", err)
	}
	if err := Platform().CheckFacts(cloud(t)); err != nil {
		t.Error(err)
	}
}

func TestADeletionWithoutObjectsKnowsTheRegion(t *testing.T) {
	c := &api.Cluster{}
	Platform().Stub(c, "us-test1")
	if c.CloudProviderID() != api.CloudGCE || !slices.ContainsFunc(c.Spec.Networking.Subnets, func(s api.ClusterSubnetSpec) bool { return s.Region == "us-test1" }) {
		t.Errorf("%+v", c.Spec)
	}
}
