package aws

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws/kinds"
)

// drift compares the launch templates that instances were created from with their groups' templates.
// Instances outside of scaling groups are left out: there is no record of their template.
func drift(ctx context.Context, s *platform.Session, c *api.Cluster, _ []*api.InstanceGroup, asked []platform.Machine) (map[string]platform.Drift, error) {
	client := s.Client.(*kinds.Client)
	groups, err := scalingGroups(ctx, client, c.Name)
	if err != nil {
		return nil, err
	}
	members, err := membersOf(ctx, client, c.Name, groups)
	if err != nil {
		return nil, err
	}
	var used []kinds.TemplateVersion
	for _, m := range asked {
		if in, ok := members[m.Name]; ok {
			used = append(used, in.created, in.wanted)
		}
	}
	templates, err := kinds.TemplateVersions(ctx, client, used)
	if err != nil {
		return nil, fmt.Errorf("describe the versions of the launch templates of %s: %w", c.Name, err)
	}
	out := map[string]platform.Drift{}
	for _, m := range asked {
		in := members[m.Name]
		have, want := templates[in.created], templates[in.wanted]
		if have == nil || want == nil {
			continue
		}
		made := compare(have, want)
		if kinds := overrideTypes(in.group); len(kinds) > 0 && in.kind != "" && !slices.Contains(kinds, in.kind) {
			made.Add("spec.mixedInstancesPolicy.instances", in.kind, strings.Join(kinds, ","))
		}
		out[m.Name] = made
	}
	return out, nil
}

// overrideTypes returns the instance types of a mixed group; nil if the
// group selects types by attributes.
func overrideTypes(g astypes.AutoScalingGroup) []string {
	var out []string
	if m := g.MixedInstancesPolicy; m != nil && m.LaunchTemplate != nil {
		for _, o := range m.LaunchTemplate.Overrides {
			if o.InstanceType == nil {
				return nil
			}
			out = append(out, sdk.ToString(o.InstanceType))
		}
	}
	return out
}

// compare returns the differences between two versions of a launch template as fields of the spec.
func compare(have, want *kinds.LaunchTemplate) platform.Drift {
	out := platform.CompareUserData(have.UserData.Value().Text(), want.UserData.Value().Text())
	out.Add("spec.machineType", have.InstanceType, want.InstanceType)
	out.Add("spec.image", have.ImageID, want.ImageID)
	compareVolumes(&out, have.BlockDevices, want.BlockDevices)
	out.Add("spec.rootVolume.optimization", have.EBSOptimized, want.EBSOptimized)
	out.Add("spec.cpuCredits", have.Credits.CPU, want.Credits.CPU)
	out.Add("spec.iam.profile", have.Profile.Name.Text()+have.Profile.ARN.Text(), want.Profile.Name.Text()+want.Profile.ARN.Text())
	out.Add("spec.sshKeyName", have.KeyName.Text(), want.KeyName.Text())
	out.Add("spec.maxPrice", have.Market.Spot.MaxPrice, want.Market.Spot.MaxPrice)
	out.Add("spec.instanceInterruptionBehavior", withoutMaxPrice(have.Market), withoutMaxPrice(want.Market))
	out.Add("spec.instanceMetadata.httpTokens", have.Metadata.Tokens, want.Metadata.Tokens)
	out.Add("spec.instanceMetadata.httpPutResponseHopLimit", have.Metadata.HopLimit, want.Metadata.HopLimit)
	out.Add("metadata over IPv6", have.Metadata.IPv6, want.Metadata.IPv6)
	out.Add("spec.detailedInstanceMonitoring", have.Monitoring.Enabled, want.Monitoring.Enabled)
	h, w := network(have), network(want)
	out.Add("spec.associatePublicIP", h.PublicIP, w.PublicIP)
	out.Add("spec.additionalSecurityGroups", groupsOf(h), groupsOf(w))
	out.Add("IPv6 addresses", h.IPv6Addresses, w.IPv6Addresses)
	out.Add("spec.tenancy", have.Placement.Tenancy, want.Placement.Tenancy)
	compareTags(&out, instanceTags(have), instanceTags(want))
	return out
}

// withoutMaxPrice returns the options of a spot instance without its maximum price.
func withoutMaxPrice(m kinds.MarketOptions) kinds.MarketOptions {
	m.Spot.MaxPrice = ""
	return m
}

// compareVolumes compares disks; the first is the root's.
func compareVolumes(out *platform.Drift, have, want []kinds.BlockDevice) {
	root := func(all []kinds.BlockDevice) kinds.EBS {
		if len(all) == 0 {
			return kinds.EBS{}
		}
		return all[0].EBS
	}
	h, w := root(have), root(want)
	out.Add("spec.rootVolume.size", h.SizeGiB, w.SizeGiB)
	out.Add("spec.rootVolume.type", h.Type, w.Type)
	out.Add("spec.rootVolume.iops", h.IOPS, w.IOPS)
	out.Add("spec.rootVolume.throughput", h.Throughput, w.Throughput)
	out.Add("spec.rootVolume.encryption", h.Encrypted, w.Encrypted)
	out.Add("spec.rootVolume.encryptionKey", h.KMSKey, w.KMSKey)
	rest := func(all []kinds.BlockDevice) []kinds.BlockDevice { return all[min(1, len(all)):] }
	out.Add("spec.volumes", rest(have), rest(want))
}

// Prefixes of the tags from which the autoscaler reads the labels and taints of nodes.
const (
	labelTags = "k8s.io/cluster-autoscaler/node-template/label/"
	taintTags = "k8s.io/cluster-autoscaler/node-template/taint/"
)

// compareTags compares the instances' tags, key by key.
func compareTags(out *platform.Drift, have, want map[string]string) {
	keys := slices.Sorted(maps.Keys(have))
	for k := range want {
		if _, both := have[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		h, w := tag(have, k), tag(want, k)
		switch {
		case strings.HasPrefix(k, labelTags):
			out.Add("spec.nodeLabels", h, w)
		case strings.HasPrefix(k, taintTags):
			out.Add("spec.taints", h, w)
		default:
			out.Add("spec.cloudLabels", h, w)
		}
	}
}

// tag formats a tag as users write it; "" if the key does not exist.
func tag(tags map[string]string, key string) string {
	value, ok := tags[key]
	if !ok {
		return ""
	}
	return strings.TrimPrefix(strings.TrimPrefix(key, labelTags), taintTags) + "=" + value
}

// instanceTags returns the tags that a template sets on instances.
func instanceTags(t *kinds.LaunchTemplate) map[string]string {
	for _, s := range t.TagSpecifications {
		if s.Resource == "instance" {
			return s.Tags
		}
	}
	return nil
}

// network returns the first network interface of a template's instances.
func network(t *kinds.LaunchTemplate) kinds.NetworkInterface {
	if len(t.NetworkInterfaces) == 0 {
		return kinds.NetworkInterface{}
	}
	return t.NetworkInterfaces[0]
}

func groupsOf(n kinds.NetworkInterface) string {
	var ids []string
	for _, g := range n.SecurityGroups {
		ids = append(ids, g.Text())
	}
	slices.Sort(ids)
	return strings.Join(ids, ",")
}
