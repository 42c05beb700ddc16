package kinds

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcecloud"
)

// digestLength is the number of digest characters at the end of a template's name; names have at
// most 63 characters, and prefixes at most 33.
const digestLength = 20

// The defaults that Google fills in.
const (
	onlyIPv4      = "IPV4_ONLY"
	standardModel = "STANDARD"
)

// normalizeTemplate normalizes a template as Google does.
func normalizeTemplate(t *InstanceTemplate) {
	t.Lifecycle.CreateBeforeDestroy = true
	for i := range t.Disks {
		t.Disks[i].SourceImage = gceapi.URL(gceapi.Link(t.Disks[i].SourceImage))
	}
	for i := range t.Interfaces {
		t.Interfaces[i].StackType = cmp.Or(t.Interfaces[i].StackType, onlyIPv4)
	}
	t.Scheduling.ProvisioningModel = cmp.Or(t.Scheduling.ProvisioningModel, standardModel)
}

// templateName returns the prefix and the digest of the content, in which unknown values are
// represented by what they refer to.
func templateName(t *InstanceTemplate) string {
	p := t.properties()
	slices.Sort(p.Tags.Items)
	for _, a := range p.ServiceAccounts {
		slices.Sort(a.Scopes)
	}
	text, err := p.MarshalJSON()
	if err != nil {
		panic(err) // strings and numbers can always be marshalled
	}
	sum := sha256.Sum256(text)
	return t.Prefix + hex.EncodeToString(sum[:])[:digestLength]
}

func (t *InstanceTemplate) metadata(key string) string { return t.Metadata[key].Value().String() }

// properties returns the template in the API's form.
func (t *InstanceTemplate) properties() *compute.InstanceProperties {
	p := &compute.InstanceProperties{CanIpForward: t.CanIPForward, Labels: t.Labels, MachineType: t.MachineType,
		Tags: &compute.Tags{Items: slices.Clone(t.Tags)}, Metadata: &compute.Metadata{}, ForceSendFields: []string{"CanIpForward"},
		Scheduling: &compute.Scheduling{AutomaticRestart: new(t.Scheduling.AutomaticRestart), OnHostMaintenance: t.Scheduling.OnHostMaintenance,
			Preemptible: t.Scheduling.Preemptible, ProvisioningModel: t.Scheduling.ProvisioningModel, ForceSendFields: []string{"Preemptible"}}}
	for _, d := range t.Disks {
		p.Disks = append(p.Disks, &compute.AttachedDisk{AutoDelete: d.AutoDelete, Boot: d.Boot, DeviceName: d.DeviceName, Mode: d.Mode, Type: d.Type,
			InitializeParams: &compute.AttachedDiskInitializeParams{DiskSizeGb: int64(d.SizeGiB), DiskType: d.DiskType, SourceImage: d.SourceImage,
				ProvisionedIops: int64(d.IOPS), ProvisionedThroughput: int64(d.Throughput)}})
	}
	for _, key := range slices.Sorted(maps.Keys(t.Metadata)) {
		p.Metadata.Items = append(p.Metadata.Items, &compute.MetadataItems{Key: key, Value: new(t.metadata(key))})
	}
	for _, n := range t.Interfaces {
		p.NetworkInterfaces = append(p.NetworkInterfaces, n.request())
	}
	if email := t.Account.Email.String(); email != "" {
		p.ServiceAccounts = []*compute.ServiceAccount{{Email: email, Scopes: slices.Clone(t.Account.Scopes)}}
	}
	for _, a := range t.Accelerators {
		p.GuestAccelerators = append(p.GuestAccelerators, &compute.AcceleratorConfig{AcceleratorType: a.Type, AcceleratorCount: int64(a.Count)})
	}
	if s := t.Shielded; s != nil {
		p.ShieldedInstanceConfig = &compute.ShieldedInstanceConfig{EnableSecureBoot: s.SecureBoot, EnableVtpm: s.VTPM, EnableIntegrityMonitoring: s.Integrity,
			ForceSendFields: []string{"EnableSecureBoot", "EnableVtpm", "EnableIntegrityMonitoring"}}
	}
	if c := t.Confidential; c != nil {
		p.ConfidentialInstanceConfig = &compute.ConfidentialInstanceConfig{EnableConfidentialCompute: true, ConfidentialInstanceType: c.Type}
	}
	return p
}

func (n TemplateInterface) request() *compute.NetworkInterface {
	out := &compute.NetworkInterface{Network: networkURL(n.Network), Subnetwork: gceapi.URL(n.Subnetwork.String()), StackType: n.StackType}
	if n.Access != nil {
		out.AccessConfigs = []*compute.AccessConfig{{Type: "ONE_TO_ONE_NAT", NetworkTier: "PREMIUM"}}
	}
	for _, a := range n.Aliases {
		out.AliasIpRanges = append(out.AliasIpRanges, &compute.AliasIpRange{IpCidrRange: a.CIDR, SubnetworkRangeName: a.Range})
	}
	return out
}

// observedTemplate converts a template from the API, leaving out what Google adds.
func observedTemplate(d *compute.InstanceTemplate) *InstanceTemplate {
	p := d.Properties
	t := &InstanceTemplate{Prefix: d.Name[:strings.LastIndex(d.Name, "-")+1], CanIPForward: p.CanIpForward, Labels: p.Labels, MachineType: p.MachineType,
		Metadata: map[string]resource.Content{}, ID: gceapi.Link(d.SelfLink)}
	for _, x := range p.Disks {
		disk := TemplateDisk{AutoDelete: x.AutoDelete, Boot: x.Boot, DeviceName: x.DeviceName, Mode: x.Mode, Type: x.Type}
		if i := x.InitializeParams; i != nil {
			disk.SizeGiB, disk.DiskType, disk.SourceImage = int(i.DiskSizeGb), gceapi.Name(i.DiskType), i.SourceImage
			disk.IOPS, disk.Throughput = int(i.ProvisionedIops), int(i.ProvisionedThroughput)
		}
		t.Disks = append(t.Disks, disk)
	}
	if p.Metadata != nil {
		for _, m := range p.Metadata.Items {
			if m.Value != nil {
				t.Metadata[m.Key] = resource.Text(resource.Lit(*m.Value))
			}
		}
	}
	for _, n := range p.NetworkInterfaces {
		t.Interfaces = append(t.Interfaces, observedInterface(n))
	}
	if s := p.Scheduling; s != nil {
		t.Scheduling = Scheduling{AutomaticRestart: s.AutomaticRestart == nil || *s.AutomaticRestart, OnHostMaintenance: s.OnHostMaintenance,
			Preemptible: s.Preemptible, ProvisioningModel: s.ProvisioningModel}
	}
	for _, a := range p.ServiceAccounts {
		t.Account = TemplateAccount{Email: resource.Lit(a.Email), Scopes: a.Scopes}
	}
	if p.Tags != nil {
		t.Tags = p.Tags.Items
	}
	for _, a := range p.GuestAccelerators {
		t.Accelerators = append(t.Accelerators, Accelerator{Type: gceapi.Name(a.AcceleratorType), Count: int(a.AcceleratorCount)})
	}
	if s := p.ShieldedInstanceConfig; s != nil {
		t.Shielded = &ShieldedInstance{SecureBoot: s.EnableSecureBoot, VTPM: s.EnableVtpm, Integrity: s.EnableIntegrityMonitoring}
	}
	if c := p.ConfidentialInstanceConfig; c != nil && (c.EnableConfidentialCompute || c.ConfidentialInstanceType != "") {
		t.Confidential = &ConfidentialInstance{Type: cmp.Or(c.ConfidentialInstanceType, "SEV")}
	}
	normalizeTemplate(t)
	return t
}

func observedInterface(n *compute.NetworkInterface) TemplateInterface {
	out := TemplateInterface{Network: networkRef(n.Network), Subnetwork: link(n.Subnetwork), StackType: n.StackType}
	if len(n.AccessConfigs) > 0 {
		out.Access = &AccessConfig{}
	}
	for _, a := range n.AliasIpRanges {
		out.Aliases = append(out.Aliases, AliasRange{CIDR: a.IpCidrRange, Range: a.SubnetworkRangeName})
	}
	return out
}

// listTemplates lists the templates that name the cluster. Of several with the same content it
// lists one, preferably one that a group uses; with Scope.All it lists all.
func listTemplates(ctx context.Context, c *Client, s resource.Scope) ([]*InstanceTemplate, error) {
	w, err := newWorld(ctx, c, s)
	if err != nil {
		return nil, err
	}
	groups, err := c.allManagers(ctx)
	if err != nil {
		return nil, err
	}
	used, busy := w.usedTemplates(groups)
	var out []*InstanceTemplate
	at := map[string]int{}
	for _, d := range w.templates {
		t := observedTemplate(d)
		t.Idle = s.All || !used[t.ID] && !busy[t.metadata(gcecloud.MetadataGroup)]
		key := templateName(t)
		i, twin := at[key]
		switch {
		case s.All || !twin:
			at[key] = len(out)
			out = append(out, t)
		case used[t.ID] && !used[out[i].ID]:
			out[i] = t
		}
	}
	return out, nil
}

// usedTemplates returns the templates that groups refer to, and the instance groups that still have
// machines created from another template.
func (w *world) usedTemplates(groups []*compute.InstanceGroupManager) (used, busy map[string]bool) {
	used, busy = map[string]bool{}, map[string]bool{}
	of := map[string]string{} // the instance group by template
	for _, t := range w.templates {
		of[gceapi.Link(t.SelfLink)] = templateMetadata(t, gcecloud.MetadataGroup)
	}
	for _, m := range groups {
		current := gceapi.Link(templateOf(m))
		used[current] = true
		for _, v := range m.Versions {
			used[gceapi.Link(v.InstanceTemplate)] = true
		}
		reached := m.Status != nil && m.Status.VersionTarget != nil && m.Status.VersionTarget.IsReached
		if group, own := of[current]; own && !reached {
			busy[group] = true
		}
	}
	return used, busy
}

// createTemplate adopts an existing template of that name if it has the content, which it has
// unless it was created by hand.
func createTemplate(ctx context.Context, c *Client, t *InstanceTemplate) error {
	name := templateName(t)
	t.ID = "projects/" + c.Project + "/global/instanceTemplates/" + name
	err := c.Await(ctx)(c.Compute.InstanceTemplates.Insert(c.Project, &compute.InstanceTemplate{Name: name, Properties: t.properties()}).Context(ctx).Do())
	if !isAlreadyExists(err) {
		return err
	}
	is, lookErr := gceapi.Result(c.Compute.InstanceTemplates.Get(c.Project, name).Context(ctx).Do())
	if lookErr != nil {
		return fmt.Errorf("%w; read it: %w", err, lookErr)
	}
	if is.Properties == nil || templateName(observedTemplate(is)) != name {
		return err
	}
	return nil
}
