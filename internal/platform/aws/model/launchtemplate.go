package model

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws/kinds"
	"kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/fill"
)

// firstEphemeral is the last letter of the device name of a host's first disk: /dev/sdc.
const firstEphemeral = 'c'

// launchTemplates returns the launch template of each group.
func (m *model) launchTemplates() ([]resource.Node, error) {
	key, err := m.keyName()
	if err != nil {
		return nil, err
	}
	var nodes []resource.Node
	for _, g := range m.scaledGroups() {
		t, err := m.launchTemplate(g, key)
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", g.Name, err)
		}
		node := kinds.LaunchTemplates.New(m.groupName(g), t)
		node.After = m.Keysets
		if g.HasAPIServer() {
			keys, err := m.storeKeys()
			if err != nil {
				return nil, err
			}
			for _, k := range keys { // its machines read the keys first
				node.After = append(slices.Clone(node.After), k.Address)
			}
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

func (m *model) launchTemplate(g *api.InstanceGroup, key resource.Value) (kinds.LaunchTemplate, error) {
	image, ok := m.facts.Image(g.Spec.Image)
	if !ok {
		return kinds.LaunchTemplate{}, fmt.Errorf("the image %s is not known", g.Spec.Image)
	}
	subnets, err := m.subnetsOf(g)
	if err != nil {
		return kinds.LaunchTemplate{}, err
	}
	tags := m.groupTags(g)
	t := kinds.LaunchTemplate{
		Name:         m.groupName(g),
		BlockDevices: m.blockDevices(g, image),
		Credits:      kinds.CreditSpecification{CPU: fill.Or(g.Spec.CPUCredits, "")},
		EBSOptimized: fill.Or(fill.Or(g.Spec.RootVolume, api.InstanceRootVolumeSpec{}).Optimization, false),
		Profile:      kinds.InstanceProfileRef{Name: m.profileRef(g)},
		ImageID:      image.ID,
		InstanceType: machineType(g),
		KeyName:      key,
		Market:       marketOptions(g),
		Metadata:     metadataOptions(g, subnets),
		Monitoring:   kinds.Monitoring{Enabled: fill.Or(g.Spec.DetailedInstanceMonitoring, false)},
		NetworkInterfaces: []kinds.NetworkInterface{{
			PublicIP: spec.PublicIP(g, subnets[0]), DeleteOnTermination: true, SecurityGroups: m.securityGroupIDs(g)}},
		Placement: kinds.Placement{Tenancy: g.Spec.Tenancy},
		Tags:      tags,
	}
	if anyIPv6Subnet(subnets) {
		t.NetworkInterfaces[0].IPv6Addresses = 1
	}
	for _, what := range []string{"instance", "volume", "network-interface"} {
		t.TagSpecifications = append(t.TagSpecifications, kinds.TagSpecification{Resource: what, Tags: tags})
	}
	if m.UserData != nil {
		t.UserData, err = m.UserData(g, m.apiHost())
	}
	return t, err
}

// scripts returns the user data of groups without a launch template, in the state store.
func (m *model) scripts() ([]resource.Node, error) {
	var nodes []resource.Node
	for _, g := range m.groupsOf(api.RoleNode) {
		if g.Spec.Manager != api.ManagerKarpenter || m.Script == nil {
			continue
		}
		n, err := m.Script(g, m.apiHost())
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", g.Name, err)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// APIHost returns the host where machines reach the API if no name is published; zero otherwise.
func APIHost(in platform.Model) (resource.Value, error) {
	m, err := newModel(in)
	if err != nil {
		return resource.Value{}, err
	}
	return m.apiHost(), nil
}

// apiHost returns the host where machines reach the API if no name is published; zero otherwise.
func (m *model) apiHost() resource.Value {
	if m.apiLB == nil || !m.apiLB.registersInstances {
		return resource.Value{}
	}
	return m.apiLB.out("address")
}

// machineType returns the type of a group's machines: the first if the spec lists several.
func machineType(g *api.InstanceGroup) string {
	first, _, _ := strings.Cut(g.Spec.MachineType, ",")
	return strings.TrimSpace(first)
}

// blockDevices returns the root volume, the disks of the host, and the
// additional volumes in the spec.
func (m *model) blockDevices(g *api.InstanceGroup, image facts.Image) []kinds.BlockDevice {
	devices := []kinds.BlockDevice{{Device: image.RootDevice, EBS: rootVolume(g)}}
	t, _ := m.facts.MachineType(machineType(g)) // an unknown type has no disks
	for i := range t.EphemeralDisks {
		devices = append(devices, kinds.BlockDevice{
			Device: fmt.Sprintf("/dev/sd%c", firstEphemeral+i), Virtual: fmt.Sprintf("ephemeral%d", i)})
	}
	for _, v := range g.Spec.Volumes {
		ebs := kinds.EBS{
			DeleteOnTermination: fill.Or(v.DeleteOnTermination, true), Encrypted: fill.Or(v.Encrypted, true), KMSKey: fill.Or(v.Key, ""),
			SizeGiB: int(v.Size), Type: v.Type,
		}
		if ebs.Type == "" {
			ebs.Type = spec.DefaultVolumeType
		}
		ebs.IOPS, ebs.Throughput = spec.VolumeSpeed(ebs.Type, int(fill.Or(v.IOPS, 0)), int(fill.Or(v.Throughput, 0)))
		devices = append(devices, kinds.BlockDevice{Device: v.Device, EBS: ebs})
	}
	return devices
}

func rootVolume(g *api.InstanceGroup) kinds.EBS {
	v := fill.Or(g.Spec.RootVolume, api.InstanceRootVolumeSpec{})
	ebs := kinds.EBS{
		DeleteOnTermination: true, Encrypted: fill.Or(v.Encryption, true), KMSKey: fill.Or(v.EncryptionKey, ""),
		SizeGiB: int(fill.Or(v.Size, 0)), Type: fill.Or(v.Type, spec.DefaultVolumeType),
	}
	ebs.IOPS, ebs.Throughput = spec.VolumeSpeed(ebs.Type, int(fill.Or(v.IOPS, 0)), int(fill.Or(v.Throughput, 0)))
	return ebs
}

// marketOptions requests spot machines. A group that mixes types requests them in its own policy.
func marketOptions(g *api.InstanceGroup) kinds.MarketOptions {
	if fill.Or(g.Spec.MaxPrice, "") == "" || g.Spec.MixedInstancesPolicy != nil {
		return kinds.MarketOptions{}
	}
	return kinds.MarketOptions{Type: "spot", Spot: kinds.SpotOptions{
		MaxPrice: *g.Spec.MaxPrice, BlockDurationMinutes: int(fill.Or(g.Spec.SpotDurationInMinutes, 0)),
		Interruption: fill.Or(g.Spec.InstanceInterruptionBehavior, "")}}
}

func metadataOptions(g *api.InstanceGroup, subnets []*api.ClusterSubnetSpec) kinds.MetadataOptions {
	o := fill.Or(g.Spec.InstanceMetadata, api.InstanceMetadataOptions{})
	w := kinds.MetadataOptions{
		Endpoint: "enabled", IPv6: "disabled",
		HopLimit: int(fill.Or(o.HTTPPutResponseHopLimit, 1)), Tokens: fill.Or(o.HTTPTokens, "required"),
	}
	if anyIPv6Subnet(subnets) {
		w.IPv6 = "enabled"
	}
	return w
}

func anyIPv6Subnet(subnets []*api.ClusterSubnetSpec) bool {
	for _, s := range subnets {
		if s.IPv6CIDR != "" {
			return true
		}
	}
	return false
}
