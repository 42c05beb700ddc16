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

// made compares the launch templates that instances were made of with their groups' templates.
// Instances outside of scaling groups are left out: they carry no record.
func made(ctx context.Context, s *platform.Session, c *api.Cluster, _ []*api.InstanceGroup, asked []platform.Machine) (map[string]platform.Made, error) {
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
			used = append(used, in.made, in.wanted)
		}
	}
	templates, err := kinds.TemplateVersions(ctx, client, used)
	if err != nil {
		return nil, fmt.Errorf("describe the versions of the launch templates of %s: %w", c.Name, err)
	}
	out := map[string]platform.Made{}
	for _, m := range asked {
		in := members[m.Name]
		have, want := templates[in.made], templates[in.wanted]
		if have == nil || want == nil {
			continue
		}
		made := compare(have, want)
		if kinds := overrides(in.group); len(kinds) > 0 && in.kind != "" && !slices.Contains(kinds, in.kind) {
			made.Note("spec.mixedInstancesPolicy.instances", in.kind, strings.Join(kinds, ","))
		}
		out[m.Name] = made
	}
	return out, nil
}

// overrides are the types that a mixed group makes instances of; none where it chooses by
// what types have.
func overrides(g astypes.AutoScalingGroup) []string {
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

// compare tells in what two versions of a launch template differ, as fields of the spec.
func compare(have, want *kinds.LaunchTemplate) platform.Made {
	out := platform.Started(have.UserData.Value().Text(), want.UserData.Value().Text())
	out.Note("spec.machineType", have.InstanceType, want.InstanceType)
	out.Note("spec.image", have.ImageID, want.ImageID)
	compareVolumes(&out, have.BlockDevices, want.BlockDevices)
	out.Note("spec.rootVolume.optimization", have.EBSOptimized, want.EBSOptimized)
	out.Note("spec.cpuCredits", have.Credits.CPU, want.Credits.CPU)
	out.Note("spec.iam.profile", have.Profile.Name.Text()+have.Profile.ARN.Text(), want.Profile.Name.Text()+want.Profile.ARN.Text())
	out.Note("spec.sshKeyName", have.KeyName.Text(), want.KeyName.Text())
	out.Note("spec.maxPrice", have.Market.Spot.MaxPrice, want.Market.Spot.MaxPrice)
	out.Note("spec.instanceInterruptionBehavior", unpriced(have.Market), unpriced(want.Market))
	out.Note("spec.instanceMetadata.httpTokens", have.Metadata.Tokens, want.Metadata.Tokens)
	out.Note("spec.instanceMetadata.httpPutResponseHopLimit", have.Metadata.HopLimit, want.Metadata.HopLimit)
	out.Note("metadata over IPv6", have.Metadata.IPv6, want.Metadata.IPv6)
	out.Note("spec.detailedInstanceMonitoring", have.Monitoring.Enabled, want.Monitoring.Enabled)
	h, w := network(have), network(want)
	out.Note("spec.associatePublicIP", h.PublicIP, w.PublicIP)
	out.Note("spec.additionalSecurityGroups", groupsOf(h), groupsOf(w))
	out.Note("addresses of IPv6", h.IPv6Addresses, w.IPv6Addresses)
	out.Note("spec.tenancy", have.Placement.Tenancy, want.Placement.Tenancy)
	compareTags(&out, instanceTags(have), instanceTags(want))
	return out
}

// unpriced is what a spot instance is without its price.
func unpriced(m kinds.MarketOptions) kinds.MarketOptions {
	m.Spot.MaxPrice = ""
	return m
}

// compareVolumes compares disks; the first is the root's.
func compareVolumes(out *platform.Made, have, want []kinds.BlockDevice) {
	root := func(all []kinds.BlockDevice) kinds.EBS {
		if len(all) == 0 {
			return kinds.EBS{}
		}
		return all[0].EBS
	}
	h, w := root(have), root(want)
	out.Note("spec.rootVolume.size", h.SizeGiB, w.SizeGiB)
	out.Note("spec.rootVolume.type", h.Type, w.Type)
	out.Note("spec.rootVolume.iops", h.IOPS, w.IOPS)
	out.Note("spec.rootVolume.throughput", h.Throughput, w.Throughput)
	out.Note("spec.rootVolume.encryption", h.Encrypted, w.Encrypted)
	out.Note("spec.rootVolume.encryptionKey", h.KMSKey, w.KMSKey)
	rest := func(all []kinds.BlockDevice) []kinds.BlockDevice { return all[min(1, len(all)):] }
	out.Note("spec.volumes", rest(have), rest(want))
}

// Prefixes of the tags by which the autoscaler knows the labels and taints of nodes.
const (
	labelTags = "k8s.io/cluster-autoscaler/node-template/label/"
	taintTags = "k8s.io/cluster-autoscaler/node-template/taint/"
)

// compareTags compares what instances are tagged with, key by key.
func compareTags(out *platform.Made, have, want map[string]string) {
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
			out.Note("spec.nodeLabels", h, w)
		case strings.HasPrefix(k, taintTags):
			out.Note("spec.taints", h, w)
		default:
			out.Note("spec.cloudLabels", h, w)
		}
	}
}

// tag is a tag as users write it; empty where there is none.
func tag(tags map[string]string, key string) string {
	value, ok := tags[key]
	if !ok {
		return ""
	}
	return strings.TrimPrefix(strings.TrimPrefix(key, labelTags), taintTags) + "=" + value
}

// instanceTags are the tags that a template gives instances.
func instanceTags(t *kinds.LaunchTemplate) map[string]string {
	for _, s := range t.TagSpecifications {
		if s.Resource == "instance" {
			return s.Tags
		}
	}
	return nil
}

// network is the first interface of instances.
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
