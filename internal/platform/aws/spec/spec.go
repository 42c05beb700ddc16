// Package spec describes Amazon Web Services for the stages that infer, check and describe a
// cluster.
//
// It must not know how the cloud is called.
package spec

import (
	_ "embed"
	"regexp"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws/awsname"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/effects"
	"kops.local/kops/internal/spec/facts"
)

// How a boot script gets the credentials of the machine's role, and then reads the cluster's bucket, or
// the keys of another server.
var (
	//go:embed fetch_role.sh
	fetchRole string
	//go:embed fetch_bucket.sh
	fetchBucket string
	//go:embed fetch_keys.sh
	fetchKeys string
)

// Platform returns the description of AWS.
func Platform() platform.Platform {
	return platform.Platform{Traits: awsTraits(), Complete: completion(), Validate: validation(), New: newClusterRules(), CheckFacts: facts.CheckOwn[Facts], Stub: func(c *api.Cluster, region string) {
		c.Spec.CloudProvider.AWS = &api.AWSSpec{}
		c.Spec.Networking.Subnets = []api.ClusterSubnetSpec{{Name: region, Region: region}}
	}}
}

func awsTraits() traits.Traits {
	usual := []traits.Type{{Name: "t3.medium"}, {Name: "c5.large"}, {Name: "c4.large"}, {Name: "t4g.medium", ARM: true}}
	return traits.Traits{
		Name: api.CloudAWS, Title: "AWS", Rehearsed: true,
		Has: traits.Abilities{
			FurtherRanges: true, IPv6: true, PrefixLists: true, SecurityGroups: true, BalancerClass: true, BalancerSubnets: true,
			FurtherVolumes: true, MixedInstances: true, WarmPools: true, Karpenter: true, GPUDrivers: true, APIServerNodes: true,
			NetworkAddresses: true, PodRanges: true, OwnNAT64: true, Repair: true,
		},
		Unused:  unusedFields(),
		SSHKeys: traits.SSHKeys{Most: 1, NamedOnly: true},
		Network: traits.Network{
			NeedsSubnets: true, NeedsCIDR: true, NeedsNonMasquerade: true, NeedsSubnetCIDR: true,
			CIDR: "172.20.0.0/16", Split: true, Zoned: true, RegionOf: RegionOf, SharedAreKnown: true,
			DNS: []api.DNSType{api.DNSPublic, api.DNSPrivate},
			Own: []string{"amazonvpc"}, Metadata: "169.254.169.254",
		},
		Machines: traits.Machines{
			Types: map[api.InstanceGroupRole][]traits.Type{
				api.RoleControlPlane: usual, api.RoleAPIServer: usual, api.RoleNode: usual,
				api.RoleBastion: {{Name: "t3.micro"}, {Name: "t2.micro"}, {Name: "t4g.micro", ARM: true}},
			},
			ImageForms: "ami-…, owner/name or ssm:/parameter",
			// Images that kOps' channels recommended, from kOps itself and from Canonical (owner
			// 099720109477).
			Published: []string{"kope.io/k8s-", "099720109477/ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-",
				"099720109477/ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-", "099720109477/ubuntu/images/hvm-ssd/ubuntu-focal-20.04-"},
			GPU: traits.GPUByType, EtcdEncrypted: true, OneGroupFeature: "AWSSingleNodesInstanceGroup",
			// Amazon EC2 User Guide, Tag restrictions.
			Tags: &traits.Tags{Place: "an AWS tag", Key: 128, Value: 256, LabelPrefix: "k8s.io/cluster-autoscaler/node-template/label/"},
		},
		Store: traits.Store{Schemes: []string{"s3"}, Files: []string{"s3"}, RegionVariable: "AWS_REGION", Keys: awsname.StoreKeys,
			Fetch: map[string]string{"s3": fetchRole + fetchBucket}, FetchWithKeys: fetchRole + fetchKeys},
		Model:  modelTraits(),
		Addons: traits.Addons{DNSController: "aws-route53", SnapshotDriver: "ebs.csi.aws.com", NodeNamesResolve: true, ChecksSources: true},
	}
}

// effectsOfFields returns the effects of the fields that only AWS uses.
func effectsOfFields() effects.Table {
	const addon, cloudConfig = "channels applies the add-on", "it is in a file on the machines"
	return effects.Table{Cluster: []effects.Entry{
		{Path: "spec.cloudProvider.aws.ebsCSIDriver", Effect: effects.Live, Why: addon},
		{Path: "spec.cloudProvider.aws.loadBalancerController", Effect: effects.Live, Why: addon},
		{Path: "spec.cloudProvider.aws.nodeTerminationHandler", Effect: effects.Live, Why: addon},
		{Path: "spec.cloudProvider.aws.podIdentityWebhook", Effect: effects.Live, Why: addon},
		{Path: "spec.cloudProvider.aws.warmPool", Effect: effects.Live, Why: "it does not contain running machines"},
		{Path: "spec.cloudProvider.aws.warmPool.enableLifecycleHook", Effect: effects.Replace, Why: "machines notify the hook when they boot"},
		{Path: "spec.cloudProvider.aws.warmPool.additionalImages", Effect: effects.None, Why: "they are pulled before a machine joins"},
		{Path: "spec.cloudProvider.aws.disableSecurityGroupIngress", Effect: effects.Restart, Why: cloudConfig},
		{Path: "spec.cloudProvider.aws.elbSecurityGroup", Effect: effects.Restart, Why: cloudConfig},
		{Path: "spec.cloudProvider.aws.nlbSecurityGroupMode", Effect: effects.Restart, Why: cloudConfig},
	}}
}

func unusedFields() []traits.Unused {
	return []traits.Unused{
		{Kind: api.KindCluster, Blocks: []string{"cloudProvider.aws"}, Names: []string{"binariesLocation"}, Remedy: "remove it; see spec.assets.fileRepository"},
		{Kind: api.KindInstanceGroup, Names: []string{"zones"}, Remedy: "remove it; the subnets of the group determine its zones"},
	}
}

// zoneName matches an availability zone, such as us-east-1a or us-gov-west-1b, or a local zone,
// such as us-west-2-lax-1a; it begins with the name of its region.
var zoneName = regexp.MustCompile(`^([a-z]+(?:-[a-z]+)+-\d+)(?:[a-z]|-[a-z]+-\d+[a-z])$`)

// RegionOf returns the region of a zone, or "" if the name does not contain it.
func RegionOf(zone string) string {
	if m := zoneName.FindStringSubmatch(zone); m != nil {
		return m[1]
	}
	return ""
}

// MachineTypes returns the names of the types that new groups of a role choose from.
func MachineTypes(role api.InstanceGroupRole) []string {
	return traits.TypeNames(awsTraits().Machines.Types[role])
}
