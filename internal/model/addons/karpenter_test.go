package addons_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	quantity "k8s.io/apimachinery/pkg/api/resource"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/addons"
)

// pools builds a cluster whose nodes Karpenter creates, after a change of their completed group.
func pools(t *testing.T, change func(*api.InstanceGroup)) (addons.Input, *api.InstanceGroup) {
	t.Helper()
	in := cluster(t, variants()["karpenter"])
	for i, g := range in.Groups {
		if g.Spec.Role == api.RoleNode {
			own := *g
			own.Name, own.Spec.Manager, own.Spec.MachineType, own.Spec.MinSize = "pool", api.ManagerKarpenter, "", nil
			own.Spec.MaxSize, own.Spec.Kubelet = ptr(int32(4)), &api.KubeletConfigSpec{Taints: []string{"karpenter.sh/unregistered=:NoExecute"}}
			change(&own)
			in.Groups[i] = &own
			return in, &own
		}
	}
	t.Fatal("no nodes")
	return in, nil
}

func TestKarpentersPoolsFollowTheirGroups(t *testing.T) {
	const class, pool = "EC2NodeClass", "NodePool"
	requirement := func(key string, values ...string) string {
		text, err := json.Marshal(map[string]any{"key": key, "operator": "In", "values": values})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	bound := func(of, operator, value string) string {
		return `{"key":"karpenter.k8s.aws/instance-` + of + `","operator":"` + operator + `","values":["` + value + `"]}`
	}
	market := func(values ...string) string {
		return "[" + requirement("kubernetes.io/os", "linux") + "," + requirement("karpenter.sh/capacity-type", values...) + "]"
	}
	types := func(values ...string) string {
		return "[" + requirement("kubernetes.io/os", "linux") + "," + requirement("node.kubernetes.io/instance-type", values...) + "," + requirement("karpenter.sh/capacity-type", "on-demand") + "]"
	}
	root := func(fields string) string {
		return `[{"deviceName":"/dev/xvda","ebs":{"deleteOnTermination":true,` + fields + `},"rootVolume":true}`
	}
	for name, c := range map[string]struct {
		change           func(*api.InstanceGroupSpec)
		kind, path, want string
	}{
		"no type": {func(*api.InstanceGroupSpec) {}, pool, "template.spec.requirements", market("on-demand")},
		"types":   {func(s *api.InstanceGroupSpec) { s.MachineType = "m5.large, c5.large" }, pool, "template.spec.requirements", types("c5.large", "m5.large")},
		"mixed types": {func(s *api.InstanceGroupSpec) {
			s.MachineType, s.MixedInstancesPolicy = "m5.large", &api.MixedInstancesPolicySpec{Instances: []string{"t3.large", "m5.large"}}
		}, pool, "template.spec.requirements", types("m5.large", "t3.large")},
		"requirements instead of a type": {func(s *api.InstanceGroupSpec) {
			s.MachineType, s.MixedInstancesPolicy = "m5.large", &api.MixedInstancesPolicySpec{InstanceRequirements: &api.InstanceRequirementsSpec{
				CPU: &api.MinMaxSpec{Min: amount("2"), Max: amount("8")}, Memory: &api.MinMaxSpec{Min: amount("4Gi")}, ExcludedInstanceTypes: []string{"t3.large", "m5.*", "m4*"}}}
		}, pool, "template.spec.requirements", "[" + strings.Join([]string{requirement("kubernetes.io/os", "linux"),
			bound("cpu", "Gt", "1"), bound("cpu", "Lt", "9"), bound("memory", "Gt", "4095"), `{"key":"karpenter.k8s.aws/instance-family","operator":"NotIn","values":["m5"]}`,
			`{"key":"node.kubernetes.io/instance-type","operator":"NotIn","values":["t3.large"]}`, requirement("karpenter.sh/capacity-type", "on-demand")}, ",") + "]"},
		"requirements instead of types": {func(s *api.InstanceGroupSpec) {
			s.MixedInstancesPolicy = &api.MixedInstancesPolicySpec{Instances: []string{"m5.large"}, InstanceRequirements: &api.InstanceRequirementsSpec{CPU: &api.MinMaxSpec{Min: amount("8")}}}
		}, pool, "template.spec.requirements", "[" + strings.Join([]string{requirement("kubernetes.io/os", "linux"), bound("cpu", "Gt", "7"), requirement("karpenter.sh/capacity-type", "on-demand")}, ",") + "]"},
		"requirements in parts of a unit": {func(s *api.InstanceGroupSpec) { // 1500M is 1430.5 MiB
			s.MixedInstancesPolicy = &api.MixedInstancesPolicySpec{InstanceRequirements: &api.InstanceRequirementsSpec{
				CPU: &api.MinMaxSpec{Min: amount("1500m"), Max: amount("4500m")}, Memory: &api.MinMaxSpec{Min: amount("1500M"), Max: amount("3000M")}}}
		}, pool, "template.spec.requirements", "[" + strings.Join([]string{requirement("kubernetes.io/os", "linux"), bound("cpu", "Gt", "1"), bound("cpu", "Lt", "5"),
			bound("memory", "Gt", "1430"), bound("memory", "Lt", "2862"), requirement("karpenter.sh/capacity-type", "on-demand")}, ",") + "]"},
		"exclusions that Karpenter does not know": {func(s *api.InstanceGroupSpec) {
			s.MixedInstancesPolicy = &api.MixedInstancesPolicySpec{InstanceRequirements: &api.InstanceRequirementsSpec{
				ExcludedInstanceTypes: []string{"", " ", " u7i-12tb.224xlarge ", "c?.large", "*.*", ".*", "-m5.large", "m5", "M5.large", "c7i-flex.*"}}}
		}, pool, "template.spec.requirements", "[" + strings.Join([]string{requirement("kubernetes.io/os", "linux"),
			`{"key":"karpenter.k8s.aws/instance-family","operator":"NotIn","values":["c7i-flex"]}`, `{"key":"node.kubernetes.io/instance-type","operator":"NotIn","values":["u7i-12tb.224xlarge"]}`,
			requirement("karpenter.sh/capacity-type", "on-demand")}, ",") + "]"},
		"no minimum": {func(s *api.InstanceGroupSpec) {
			s.MixedInstancesPolicy = &api.MixedInstancesPolicySpec{InstanceRequirements: &api.InstanceRequirementsSpec{CPU: &api.MinMaxSpec{Min: amount("0")}}}
		}, pool, "template.spec.requirements", market("on-demand")},
		"maximum price": {func(s *api.InstanceGroupSpec) { s.MaxPrice = ptr("0.1") }, pool, "template.spec.requirements", market("spot")},
		"spot duration": {func(s *api.InstanceGroupSpec) { s.SpotDurationInMinutes = ptr(int64(60)) }, pool, "template.spec.requirements", market("spot")},
		"some on demand": {func(s *api.InstanceGroupSpec) {
			s.MixedInstancesPolicy = &api.MixedInstancesPolicySpec{OnDemandAboveBase: ptr(int64(10))}
		}, pool, "template.spec.requirements", market("on-demand", "spot")},
		"all on demand": {func(s *api.InstanceGroupSpec) {
			s.MixedInstancesPolicy = &api.MixedInstancesPolicySpec{OnDemandAboveBase: ptr(int64(100))}
		}, pool, "template.spec.requirements", market("on-demand")},
		"maximum size":    {func(*api.InstanceGroupSpec) {}, pool, "limits", `{"nodes":4}`},
		"no maximum size": {func(s *api.InstanceGroupSpec) { s.MaxSize = nil }, pool, "limits", "null"},
		"no minimum size": {func(*api.InstanceGroupSpec) {}, pool, "replicas", "null"},
		"minimum size":    {func(s *api.InstanceGroupSpec) { s.MinSize = ptr(int32(2)) }, pool, "replicas", "2"},
		"no taints":       {func(*api.InstanceGroupSpec) {}, pool, "template.spec.taints", "null"},
		"taints": {func(s *api.InstanceGroupSpec) {
			s.Kubelet.Taints = append(s.Kubelet.Taints, "a=b:NoSchedule", "c:NoExecute")
		}, pool, "template.spec.taints", `[{"effect":"NoSchedule","key":"a","value":"b"},{"effect":"NoExecute","key":"c"}]`},
		"labels": {func(s *api.InstanceGroupSpec) {
			s.Kubelet.NodeLabels = map[string]string{"a": "b", "karpenter.sh/x": "y", "x.karpenter.k8s.aws/x": "y", "kubernetes.io/hostname": "z"}
		}, pool, "template.metadata.labels", `{"a":"b"}`},
		"class":                {func(*api.InstanceGroupSpec) {}, pool, "template.spec.nodeClassRef", `{"group":"karpenter.k8s.aws","kind":"EC2NodeClass","name":"pool"}`},
		"image by ID":          {func(s *api.InstanceGroupSpec) { s.Image = "ami-1" }, class, "amiSelectorTerms", `[{"id":"ami-1"}]`},
		"image by parameter":   {func(s *api.InstanceGroupSpec) { s.Image = "ssm:/aws/x" }, class, "amiSelectorTerms", `[{"ssmParameter":"/aws/x"}]`},
		"own image":            {func(s *api.InstanceGroupSpec) { s.Image = "mine" }, class, "amiSelectorTerms", `[{"name":"mine","owner":"self"}]`},
		"image of an account":  {func(s *api.InstanceGroupSpec) { s.Image = "099720109477/ubuntu/x" }, class, "amiSelectorTerms", `[{"name":"ubuntu/x","owner":"099720109477"}]`},
		"image of a publisher": {func(s *api.InstanceGroupSpec) { s.Image = "amazon/al2023" }, class, "amiSelectorTerms", `[{"name":"al2023","owner":"137112412989"},{"name":"amazon/al2023","owner":"137112412989"}]`},
		"public subnet":        {func(*api.InstanceGroupSpec) {}, class, "associatePublicIPAddress", "true"},
		"no public address":    {func(s *api.InstanceGroupSpec) { s.AssociatePublicIP = ptr(false) }, class, "associatePublicIPAddress", "false"},
		"usual disk":           {func(*api.InstanceGroupSpec) {}, class, "blockDeviceMappings", root(`"encrypted":true,"iops":3000,"throughput":125,"volumeSize":"128Gi","volumeType":"gp3"`) + "]"},
		"disk of another type": {func(s *api.InstanceGroupSpec) {
			s.RootVolume = &api.InstanceRootVolumeSpec{Size: ptr(int32(20)), Type: ptr("gp2"), Encryption: ptr(false), EncryptionKey: ptr("k")}
		}, class, "blockDeviceMappings", root(`"encrypted":false,"volumeSize":"20Gi","volumeType":"gp2"`) + "]"},
		"provisioned disk": {func(s *api.InstanceGroupSpec) {
			s.RootVolume = &api.InstanceRootVolumeSpec{Size: ptr(int32(20)), Type: ptr("io1"), EncryptionKey: ptr("k")}
		}, class, "blockDeviceMappings", root(`"encrypted":true,"iops":100,"kmsKeyID":"k","volumeSize":"20Gi","volumeType":"io1"`) + "]"},
		"further disk": {func(s *api.InstanceGroupSpec) {
			s.Volumes = []api.VolumeSpec{{Device: "/dev/xvdb", Size: 5, DeleteOnTermination: ptr(false)}}
		}, class, "blockDeviceMappings", root(`"encrypted":true,"iops":3000,"throughput":125,"volumeSize":"128Gi","volumeType":"gp3"`) + `,{"deviceName":"/dev/xvdb","ebs":{"deleteOnTermination":false,"encrypted":true,"iops":3000,"throughput":125,"volumeSize":"5Gi","volumeType":"gp3"}}]`},
		"no kubelet": {func(*api.InstanceGroupSpec) {}, class, "kubelet", "null"},
		"kubelet": {func(s *api.InstanceGroupSpec) {
			s.Kubelet.MaxPods, s.Kubelet.KubeReserved, s.Kubelet.SystemReserved = ptr(int32(50)), map[string]string{"cpu": "1"}, map[string]string{"memory": "1G"}
		}, class, "kubelet", `{"kubeReserved":{"cpu":"1"},"maxPods":50,"systemReserved":{"memory":"1G"}}`},
		"usual metadata": {func(s *api.InstanceGroupSpec) {
			s.InstanceMetadata = &api.InstanceMetadataOptions{HTTPTokens: ptr("required"), HTTPPutResponseHopLimit: ptr(int64(1))}
		}, class, "metadataOptions", "null"},
		"metadata for pods": {func(s *api.InstanceGroupSpec) {
			s.InstanceMetadata = &api.InstanceMetadataOptions{HTTPPutResponseHopLimit: ptr(int64(2))}
		}, class, "metadataOptions", `{"httpPutResponseHopLimit":2,"httpTokens":"required"}`},
		"monitoring": {func(s *api.InstanceGroupSpec) { s.DetailedInstanceMonitoring = ptr(true) }, class, "detailedMonitoring", "true"},
		"profile":    {func(*api.InstanceGroupSpec) {}, class, "instanceProfile", `"nodes.minimal.example.com"`},
		"own profile": {func(s *api.InstanceGroupSpec) {
			s.IAM = &api.IAMProfileSpec{Profile: ptr("arn:aws:iam::1:instance-profile/path/own")}
		}, class, "instanceProfile", `"own"`},
		"security groups":        {func(s *api.InstanceGroupSpec) { s.AdditionalSecurityGroups = []string{"sg-1"} }, class, "securityGroupSelectorTerms", `[{"tags":{"KubernetesCluster":"minimal.example.com","Name":"nodes.minimal.example.com"}},{"id":"sg-1"}]`},
		"another security group": {func(s *api.InstanceGroupSpec) { s.SecurityGroupOverride = ptr("sg-2") }, class, "securityGroupSelectorTerms", `[{"id":"sg-2"}]`},
		"subnets":                {func(*api.InstanceGroupSpec) {}, class, "subnetSelectorTerms", `[{"tags":{"KubernetesCluster":"minimal.example.com","kops.k8s.io/instance-group/pool":"true"}}]`},
		"tags": {func(s *api.InstanceGroupSpec) {
			s.CloudLabels = map[string]string{"a": "b", "karpenter.sh/nodepool": "x", "kubernetes.io/cluster/other": "y"}
		}, class, "tags",
			`{"KubernetesCluster":"minimal.example.com","Name":"pool.minimal.example.com","a":"b","k8s.io/role/node":"1","kops.k8s.io/instancegroup":"pool"}`},
	} {
		t.Run(name, func(t *testing.T) {
			in, _ := pools(t, func(g *api.InstanceGroup) { c.change(&g.Spec) })
			o := *object[map[string]any](t, build(t, in), "karpenter.sh", c.kind, "pool")
			var at any = o["spec"]
			for key := range strings.SplitSeq(c.path, ".") {
				m, _ := at.(map[string]any)
				at = m[key]
			}
			got, err := json.Marshal(at)
			if d := cmp.Diff(c.want, string(got)); err != nil || d != "" {
				t.Errorf("%s (-want +got): %s, %v", c.path, d, err)
			}
		})
	}
}

func amount(text string) *quantity.Quantity { return ptr(quantity.MustParse(text)) }

func TestSharedSubnetsOfPoolsAreSelectedByID(t *testing.T) {
	in, g := pools(t, func(*api.InstanceGroup) {})
	for i := range in.Cluster.Spec.Networking.Subnets {
		if s := &in.Cluster.Spec.Networking.Subnets[i]; s.Name == g.Spec.Subnets[0] {
			s.ID = "subnet-1"
		}
	}
	class := object[struct {
		Spec struct {
			SubnetSelectorTerms []struct{ ID string }
		}
	}](t, build(t, in), "karpenter.sh", "EC2NodeClass", "pool")
	if terms := class.Spec.SubnetSelectorTerms; len(terms) != 2 || terms[1].ID != "subnet-1" {
		t.Errorf("terms %+v", terms)
	}
}

func TestPoolsBootWithWhatIsOnlyKnownLater(t *testing.T) {
	in, _ := pools(t, func(*api.InstanceGroup) {})
	host := resource.Out(resource.Address{Kind: "lb", Name: "api"}, "host")
	in.UserData = func(*api.InstanceGroup) (resource.Value, error) {
		return resource.Concat(resource.Lit("#!/bin/sh\n# \"it's\" ${x}\njoin "), host, resource.Lit(" "), host, resource.Lit("\n")), nil
	}
	r := build(t, in)
	known := func(v resource.Value) string {
		text, ok := v.Resolve(func(resource.Address, string) (string, bool) { return "api.elb", true }).Known()
		if !ok {
			t.Fatalf("not resolved: %s", v)
		}
		return text
	}
	for _, f := range r.Files {
		if f.Boots != (f.Name == "karpenter.sh") {
			t.Errorf("%s boots machines: %t", f.Name, f.Boots)
		}
		if !f.Boots {
			continue
		}
		objects, err := addons.Decode([]byte(known(f.Value)))
		if err != nil {
			t.Fatal(err)
		}
		found := ""
		for _, o := range objects {
			if o["kind"] == "EC2NodeClass" {
				found = fmt.Sprint(o["spec"].(map[string]any)["userData"])
			}
		}
		if want := "#!/bin/sh\n# \"it's\" ${x}\njoin api.elb api.elb\n"; found != want {
			t.Errorf("user data %q, want %q", found, want)
		}
		if digest := known(resource.SHA256(f.Value)); !strings.Contains(known(r.ChannelValue), "manifestHash: "+digest+"\n") {
			t.Errorf("the channel does not have the digest %s:\n%s", digest, known(r.ChannelValue))
		}
	}
}

func TestThePoolOfADeletedGroupIsPruned(t *testing.T) {
	in, _ := pools(t, func(g *api.InstanceGroup) { g.Spec.Manager = "" })
	r := build(t, in)
	for _, f := range r.Files {
		if f.Name == "karpenter.sh" && (strings.Contains(string(f.Content), "kind: NodePool\nmetadata:\n  labels:") || f.Boots) {
			t.Errorf("a pool for a group of another manager:\n%s", f.Content)
		}
	}
	if !strings.Contains(string(r.Channel), "kind: NodePool") || !strings.Contains(string(r.Channel), "kind: EC2NodeClass") {
		t.Errorf("the channel prunes no pools:\n%s", r.Channel)
	}
}
