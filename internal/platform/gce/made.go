package gce

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/kinds"
)

// made compares the templates that instances were made of with their groups' templates. Instances
// without a group are left out.
func made(ctx context.Context, s *platform.Session, c *api.Cluster, _ []*api.InstanceGroup, asked []platform.Machine) (map[string]platform.Made, error) {
	client := s.Client.(*kinds.Client)
	now, err := look(ctx, client, c)
	if err != nil {
		return nil, err
	}
	found, err := kinds.InstanceTemplates.List(ctx, client, resource.Scope{Cluster: c.Name, All: true})
	if err != nil {
		return nil, fmt.Errorf("list the instance templates of %s: %w", c.Name, err)
	}
	templates := map[string]*kinds.InstanceTemplate{}
	for _, t := range found {
		templates[link(t.ID)] = t
	}
	out := map[string]platform.Made{}
	for _, i := range now.instances {
		if i.group == nil || !slices.ContainsFunc(asked, func(m platform.Machine) bool { return m.Name == i.Name }) {
			continue
		}
		have, want := templates[i.template()], templates[link(i.group.InstanceTemplate)]
		if have != nil && want != nil {
			out[i.Name] = compare(have, want)
		}
	}
	return out, nil
}

// compare tells in what two templates differ, as fields of the spec.
func compare(have, want *kinds.InstanceTemplate) platform.Made {
	out := platform.Started(started(have), started(want))
	out.Note("spec.machineType", have.MachineType, want.MachineType)
	h, w := root(have), root(want)
	out.Note("spec.image", h.SourceImage, w.SourceImage)
	out.Note("spec.rootVolume.size", h.SizeGiB, w.SizeGiB)
	out.Note("spec.rootVolume.type", h.DiskType, w.DiskType)
	out.Note("spec.rootVolume.iops", h.IOPS, w.IOPS)
	out.Note("spec.rootVolume.throughput", h.Throughput, w.Throughput)
	hn, wn := network(have), network(want)
	out.Note("spec.associatePublicIP", hn.Access != nil, wn.Access != nil)
	out.Note("spec.subnets", hn.Subnetwork.Text(), wn.Subnetwork.Text())
	out.Note("addresses of pods", hn.Aliases, wn.Aliases)
	out.Note("addresses of IPv6", hn.StackType, wn.StackType)
	out.Note("forwarding of packets", have.CanIPForward, want.CanIPForward)
	out.Note("spec.gcpProvisioningModel", have.Scheduling.ProvisioningModel, want.Scheduling.ProvisioningModel)
	out.Note("maintenance", have.Scheduling.OnHostMaintenance, want.Scheduling.OnHostMaintenance)
	out.Note("spec.guestAccelerators", have.Accelerators, want.Accelerators)
	out.Note("spec.gcpShielded", have.Shielded, want.Shielded)
	out.Note("spec.gcpConfidential", held(have.Confidential).Type, held(want.Confidential).Type)
	out.Note("spec.cloudProvider.gce.serviceAccount", have.Account.Email.Text(), want.Account.Email.Text())
	out.Note("rights of the service account", strings.Join(have.Account.Scopes, ","), strings.Join(want.Account.Scopes, ","))
	out.Note("network tags", strings.Join(have.Tags, ","), strings.Join(want.Tags, ","))
	out.Note("SSH keys", content(have, gcecloud.MetadataSSHKeys), content(want, gcecloud.MetadataSSHKeys))
	out.Note("spec.nodeLabels and spec.taints", content(have, gcecloud.MetadataScaler), content(want, gcecloud.MetadataScaler))
	for _, k := range slices.Sorted(maps.Keys(union(have.Labels, want.Labels))) {
		out.Note("spec.cloudLabels", label(have.Labels, k), label(want.Labels, k))
	}
	return out
}

// started is the user data of a template's machines, in whichever of its two places it stands.
func started(t *kinds.InstanceTemplate) string {
	return content(t, gcecloud.MetadataUserData) + content(t, gcecloud.MetadataScript)
}

func content(t *kinds.InstanceTemplate, key string) string { return t.Metadata[key].Value().Text() }

func root(t *kinds.InstanceTemplate) kinds.TemplateDisk {
	if len(t.Disks) == 0 {
		return kinds.TemplateDisk{}
	}
	return t.Disks[0]
}

func network(t *kinds.InstanceTemplate) kinds.TemplateInterface {
	if len(t.Interfaces) == 0 {
		return kinds.TemplateInterface{}
	}
	return t.Interfaces[0]
}

func union(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}

// label is a label as users write it; empty where there is none.
func label(labels map[string]string, key string) string {
	value, ok := labels[key]
	if !ok {
		return ""
	}
	return key + "=" + value
}

// held is what p points to, or zero.
func held[T any](p *T) (out T) {
	if p != nil {
		out = *p
	}
	return out
}
