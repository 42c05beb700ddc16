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

// drift compares the templates of instances with the current templates of their groups. Instances
// without a group are left out.
func drift(ctx context.Context, s *platform.Session, c *api.Cluster, _ []*api.InstanceGroup, asked []platform.Machine) (map[string]platform.Drift, error) {
	client := s.Client.(*kinds.Client)
	now, err := loadView(ctx, client, c)
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
	out := map[string]platform.Drift{}
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

// compare returns the differences between two templates, as fields of the spec.
func compare(have, want *kinds.InstanceTemplate) platform.Drift {
	out := platform.CompareUserData(userData(have), userData(want))
	out.Add("spec.machineType", have.MachineType, want.MachineType)
	h, w := bootDisk(have), bootDisk(want)
	out.Add("spec.image", h.SourceImage, w.SourceImage)
	out.Add("spec.rootVolume.size", h.SizeGiB, w.SizeGiB)
	out.Add("spec.rootVolume.type", h.DiskType, w.DiskType)
	out.Add("spec.rootVolume.iops", h.IOPS, w.IOPS)
	out.Add("spec.rootVolume.throughput", h.Throughput, w.Throughput)
	hn, wn := network(have), network(want)
	out.Add("spec.associatePublicIP", hn.Access != nil, wn.Access != nil)
	out.Add("spec.subnets", hn.Subnetwork.Text(), wn.Subnetwork.Text())
	out.Add("pod address ranges", hn.Aliases, wn.Aliases)
	out.Add("IPv6 addresses", hn.StackType, wn.StackType)
	out.Add("IP forwarding", have.CanIPForward, want.CanIPForward)
	out.Add("spec.gcpProvisioningModel", have.Scheduling.ProvisioningModel, want.Scheduling.ProvisioningModel)
	out.Add("maintenance", have.Scheduling.OnHostMaintenance, want.Scheduling.OnHostMaintenance)
	out.Add("spec.guestAccelerators", have.Accelerators, want.Accelerators)
	out.Add("spec.gcpShielded", have.Shielded, want.Shielded)
	out.Add("spec.gcpConfidential", deref(have.Confidential).Type, deref(want.Confidential).Type)
	out.Add("spec.cloudProvider.gce.serviceAccount", have.Account.Email.Text(), want.Account.Email.Text())
	out.Add("scopes of the service account", strings.Join(have.Account.Scopes, ","), strings.Join(want.Account.Scopes, ","))
	out.Add("network tags", strings.Join(have.Tags, ","), strings.Join(want.Tags, ","))
	out.Add("SSH keys", metadataText(have, gcecloud.MetadataSSHKeys), metadataText(want, gcecloud.MetadataSSHKeys))
	out.Add("spec.nodeLabels and spec.taints", metadataText(have, gcecloud.MetadataScaler), metadataText(want, gcecloud.MetadataScaler))
	for _, k := range slices.Sorted(maps.Keys(union(have.Labels, want.Labels))) {
		out.Add("spec.cloudLabels", labelValue(have.Labels, k), labelValue(want.Labels, k))
	}
	return out
}

// userData returns the user data of a template's machines, from whichever of its two metadata keys
// holds it.
func userData(t *kinds.InstanceTemplate) string {
	return metadataText(t, gcecloud.MetadataUserData) + metadataText(t, gcecloud.MetadataScript)
}

func metadataText(t *kinds.InstanceTemplate, key string) string {
	return t.Metadata[key].Value().Text()
}

func bootDisk(t *kinds.InstanceTemplate) kinds.TemplateDisk {
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

// labelValue formats a label as users write it; "" if it is not set.
func labelValue(labels map[string]string, key string) string {
	value, ok := labels[key]
	if !ok {
		return ""
	}
	return key + "=" + value
}

// deref returns what p points to, or the zero value.
func deref[T any](p *T) (out T) {
	if p != nil {
		out = *p
	}
	return out
}
