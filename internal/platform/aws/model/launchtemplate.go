package model

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/kinds"
	"kops.local/kops/internal/spec/facts"
)

// firstEphemeral is the letter of the device that a host's first disk is called by: /dev/sdc.
const firstEphemeral = 'c'

// launchTemplates says how the machines of each group are made.
func (m *model) launchTemplates() ([]resource.Node, error) {
	key, err := m.keyName()
	if err != nil {
		return nil, err
	}
	var nodes []resource.Node
	for _, g := range m.scaled() {
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
			for _, k := range keys { // which its machines read first
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
		Credits:      kinds.CreditSpecification{CPU: or(g.Spec.CPUCredits, "")},
		EBSOptimized: or(or(g.Spec.RootVolume, api.InstanceRootVolumeSpec{}).Optimization, false),
		Profile:      kinds.InstanceProfileRef{Name: m.profileRef(g)},
		ImageID:      image.ID,
		InstanceType: machineType(g),
		KeyName:      key,
		Market:       market(g),
		Metadata:     metadata(g, subnets),
		Monitoring:   kinds.Monitoring{Enabled: or(g.Spec.DetailedInstanceMonitoring, false)},
		NetworkInterfaces: []kinds.NetworkInterface{{
			PublicIP: publicIP(g, subnets), DeleteOnTermination: true, SecurityGroups: m.securityGroupIDs(g)}},
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

// scripts are the user data of groups without a launch template, in the state store.
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

// apiHost is where machines reach the API when no name is published: zero otherwise.
func (m *model) apiHost() resource.Value {
	if m.apiLB == nil || !m.apiLB.joins {
		return resource.Value{}
	}
	return m.apiLB.out("address")
}

// machineType is the type of a group's machines: the first, when the spec lists several.
func machineType(g *api.InstanceGroup) string {
	first, _, _ := strings.Cut(g.Spec.MachineType, ",")
	return strings.TrimSpace(first)
}

// blockDevices are the root volume, the disks of the host, and what the spec adds.
func (m *model) blockDevices(g *api.InstanceGroup, image facts.Image) []kinds.BlockDevice {
	devices := []kinds.BlockDevice{{Device: image.RootDevice, EBS: rootVolume(g)}}
	t, _ := m.facts.MachineType(machineType(g)) // a type that is not known has no disks
	for i := range t.EphemeralDisks {
		devices = append(devices, kinds.BlockDevice{
			Device: fmt.Sprintf("/dev/sd%c", firstEphemeral+i), Virtual: fmt.Sprintf("ephemeral%d", i)})
	}
	for _, v := range g.Spec.Volumes {
		ebs := kinds.EBS{
			DeleteOnTermination: or(v.DeleteOnTermination, true), Encrypted: or(v.Encrypted, true), KMSKey: or(v.Key, ""),
			SizeGiB: int(v.Size), Type: v.Type,
		}
		if ebs.Type == "" {
			ebs.Type = defaultVolumeType
		}
		ebs.IOPS, ebs.Throughput = volumeSpeed(ebs.Type, int(or(v.IOPS, 0)), int(or(v.Throughput, 0)))
		devices = append(devices, kinds.BlockDevice{Device: v.Device, EBS: ebs})
	}
	return devices
}

func rootVolume(g *api.InstanceGroup) kinds.EBS {
	v := or(g.Spec.RootVolume, api.InstanceRootVolumeSpec{})
	ebs := kinds.EBS{
		DeleteOnTermination: true, Encrypted: or(v.Encryption, true), KMSKey: or(v.EncryptionKey, ""),
		SizeGiB: int(or(v.Size, 0)), Type: or(v.Type, defaultVolumeType),
	}
	ebs.IOPS, ebs.Throughput = volumeSpeed(ebs.Type, int(or(v.IOPS, 0)), int(or(v.Throughput, 0)))
	return ebs
}

// market asks for spot machines. A group that mixes types asks for them itself.
func market(g *api.InstanceGroup) kinds.MarketOptions {
	if or(g.Spec.MaxPrice, "") == "" || g.Spec.MixedInstancesPolicy != nil {
		return kinds.MarketOptions{}
	}
	return kinds.MarketOptions{Type: "spot", Spot: kinds.SpotOptions{
		MaxPrice: *g.Spec.MaxPrice, BlockDurationMinutes: int(or(g.Spec.SpotDurationInMinutes, 0)),
		Interruption: or(g.Spec.InstanceInterruptionBehavior, "")}}
}

func metadata(g *api.InstanceGroup, subnets []*api.ClusterSubnetSpec) kinds.MetadataOptions {
	o := or(g.Spec.InstanceMetadata, api.InstanceMetadataOptions{})
	w := kinds.MetadataOptions{
		Endpoint: "enabled", IPv6: "disabled",
		HopLimit: int(or(o.HTTPPutResponseHopLimit, 1)), Tokens: or(o.HTTPTokens, "required"),
	}
	if anyIPv6Subnet(subnets) {
		w.IPv6 = "enabled"
	}
	return w
}

// publicIP reports whether a group's machines have public addresses: only in
// public subnets, and there unless the spec says no.
func publicIP(g *api.InstanceGroup, subnets []*api.ClusterSubnetSpec) bool {
	return !isPrivate(subnets[0]) && or(g.Spec.AssociatePublicIP, true)
}

func anyIPv6Subnet(subnets []*api.ClusterSubnetSpec) bool {
	for _, s := range subnets {
		if s.IPv6CIDR != "" {
			return true
		}
	}
	return false
}
