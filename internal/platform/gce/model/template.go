package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/gce/kinds"
	"kops.local/kops/internal/platform/gce/spec"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/fill"
)

// defaultDisk is the default type of boot disks.
const defaultDisk = "pd-standard"

// templates returns the instance template of each group.
func (m *model) templates() ([]resource.Node, error) {
	var nodes []resource.Node
	for _, g := range m.Groups {
		t, err := m.template(g)
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", g.Name, err)
		}
		node := kinds.InstanceTemplates.New(gcename.TemplateNode(g.Name, m.name), t)
		node.After = m.Keysets
		nodes = append(nodes, node)
	}
	return nodes, nil
}

func (m *model) template(g *api.InstanceGroup) (kinds.InstanceTemplate, error) {
	subnet, err := m.subnetOf(g)
	if err != nil {
		return kinds.InstanceTemplate{}, err
	}
	disk, err := m.bootDisk(g)
	if err != nil {
		return kinds.InstanceTemplate{}, err
	}
	metadata, err := m.metadata(g)
	if err != nil {
		return kinds.InstanceTemplate{}, err
	}
	t := kinds.InstanceTemplate{
		Prefix:       gcename.TemplatePrefix(g.Name, m.name),
		CanIPForward: !m.usesAliasRanges(),
		Disks:        []kinds.TemplateDisk{disk},
		Labels:       m.machineLabels(g),
		MachineType:  g.Spec.MachineType,
		Metadata:     metadata,
		Interfaces:   []kinds.TemplateInterface{m.networkInterface(g, subnet)},
		Scheduling:   scheduling(g),
		Account:      kinds.TemplateAccount{Email: m.email(g.Spec.Role), Scopes: scopes(g)},
	}
	if s := g.Spec.GCPShielded; s != nil {
		t.Shielded = &kinds.ShieldedInstance{SecureBoot: fill.Or(s.SecureBoot, false), VTPM: true, Integrity: fill.Or(s.IntegrityMonitoring, true)}
	}
	if c := g.Spec.GCPConfidential; c != nil {
		t.Confidential = &kinds.ConfidentialInstance{Type: *c}
	}
	for _, role := range machineRoles(g) {
		t.Tags = append(t.Tags, gcename.Tag(role, m.name))
	}
	for _, a := range g.Spec.GuestAccelerators {
		t.Accelerators = append(t.Accelerators, kinds.Accelerator{Type: a.AcceleratorType, Count: int(a.AcceleratorCount)})
	}
	return t, nil
}

// machineRoles returns the names of a group's role in labels and tags.
func machineRoles(g *api.InstanceGroup) []string {
	switch g.Spec.Role {
	case api.RoleControlPlane:
		return []string{gcename.ControlPlane, gcename.Master}
	case api.RoleAPIServer:
		return []string{gcename.APIServer}
	case api.RoleBastion:
		return []string{gcename.Bastion}
	}
	return []string{gcename.Node}
}

// machineLabels returns the user's labels, where the group's override the cluster's and kops'
// override both. Unlike in kOps, taints are not included: no label can contain one, so Google would
// reject the machines; the autoscaler reads kube-env.
func (m *model) machineLabels(g *api.InstanceGroup) map[string]string {
	out := map[string]string{}
	maps.Copy(out, m.spec.CloudLabels)
	maps.Copy(out, g.Spec.CloudLabels)
	maps.Copy(out, m.labels(gcecloud.GroupLabel, g.Name))
	for _, role := range machineRoles(g) {
		out[gcecloud.RolePrefix+role] = role
	}
	return out
}

// bootDisk returns the disk of the operating system. Its size is in GB.
func (m *model) bootDisk(g *api.InstanceGroup) (kinds.TemplateDisk, error) {
	image, err := m.imageURL(g.Spec.Image)
	if err != nil {
		return kinds.TemplateDisk{}, err
	}
	size := map[api.InstanceGroupRole]int32{api.RoleControlPlane: 64, api.RoleBastion: 32}[g.Spec.Role]
	if size == 0 {
		size = 128
	}
	v := fill.Or(g.Spec.RootVolume, api.InstanceRootVolumeSpec{})
	return kinds.TemplateDisk{
		AutoDelete: true, Boot: true, DeviceName: "persistent-disks-0", Mode: "READ_WRITE", Type: "PERSISTENT", SourceImage: image,
		SizeGiB: int(fill.Or(v.Size, size)), DiskType: fill.Or(v.Type, defaultDisk), IOPS: int(fill.Or(v.IOPS, 0)), Throughput: int(fill.Or(v.Throughput, 0)),
	}, nil
}

// imageURL returns the URL of an image, which the spec writes as project/name, or as name for an
// image in the cluster's project.
func (m *model) imageURL(image string) (string, error) {
	if _, _, ok := spec.ParseImage(image); !ok {
		return "", fmt.Errorf("the image %q does not have the form project/name; use this form in spec.image, or only the name for an image in project %s", image, m.project)
	}
	return spec.ImageURL(image, m.project), nil
}

func (m *model) networkInterface(g *api.InstanceGroup, s *api.ClusterSubnetSpec) kinds.TemplateInterface {
	n := kinds.TemplateInterface{Network: m.networkID(), Subnetwork: m.subnetID(s), StackType: "IPV4_ONLY"}
	if m.spec.IPv6Only() {
		n.StackType = "IPV4_IPV6"
	}
	public := s.Type == api.SubnetPublic || s.Type == api.SubnetUtility || g.IsBastion()
	if fill.Or(g.Spec.AssociatePublicIP, public) {
		n.Access = &kinds.AccessConfig{}
	}
	if m.usesAliasRanges() {
		n.Aliases = []kinds.AliasRange{{CIDR: fmt.Sprintf("/%d", m.podMask()), Range: m.podRange()}}
	}
	return n
}

// podMask returns the prefix length of a machine's pod range.
func (m *model) podMask() int32 {
	const usual = 24
	if c := m.spec.KubeControllerManager; c != nil {
		return fill.Or(c.NodeCIDRMaskSize, usual)
	}
	return usual
}

// scheduling says when machines stop: spot machines when Google reclaims them, and machines with
// GPUs or encrypted memory when their host is maintained, because they cannot be migrated.
func scheduling(g *api.InstanceGroup) kinds.Scheduling {
	s := kinds.Scheduling{AutomaticRestart: true, OnHostMaintenance: "MIGRATE", ProvisioningModel: "STANDARD"}
	if fill.Or(g.Spec.GCPProvisioningModel, "") == "SPOT" {
		s = kinds.Scheduling{OnHostMaintenance: "TERMINATE", Preemptible: true, ProvisioningModel: "SPOT"}
	}
	family, _, _ := strings.Cut(g.Spec.MachineType, "-")
	if len(g.Spec.GuestAccelerators) > 0 || g.Spec.GCPConfidential != nil || slices.Contains([]string{"a4x", "a4", "a3", "a2", "g2", "g4"}, family) {
		s.OnHostMaintenance = "TERMINATE"
	}
	return s
}

// scopes returns the scopes of the machines' tokens, which limit the permissions of their account.
func scopes(g *api.InstanceGroup) []string {
	storage := "devstorage.read_only"
	if g.IsControlPlane() {
		storage = "devstorage.read_write"
	}
	names := []string{"compute", "monitoring", "logging.write", "cloud-platform", storage}
	if g.HasAPIServer() {
		names = append(names, "ndev.clouddns.readwrite")
	}
	for i, n := range names {
		names[i] = "https://www.googleapis.com/auth/" + n
	}
	return names
}

// metadata returns the metadata of a group's machines.
func (m *model) metadata(g *api.InstanceGroup) (map[string]resource.Content, error) {
	out := map[string]resource.Content{gcecloud.MetadataCluster: literal(m.name), gcecloud.MetadataGroup: literal(g.Name)}
	if len(m.SSHKeys) > 0 {
		out[gcecloud.MetadataSSHKeys] = literal(m.sshKeys(g))
	}
	if g.Spec.Role == api.RoleNode {
		out[gcecloud.MetadataScaler] = literal(m.kubeEnv(g))
	}
	if m.UserData == nil {
		return out, nil
	}
	hosts, err := m.hosts(g)
	if err != nil {
		return nil, err
	}
	script, err := m.UserData(g, hosts...)
	if err != nil {
		return nil, err
	}
	if !script.Value().IsZero() {
		key := gcecloud.MetadataUserData
		if fill.Or(m.gce.UseStartupScript, false) {
			key = gcecloud.MetadataScript
		}
		out[key] = script
	}
	return out, nil
}

func literal(s string) resource.Content { return resource.Text(resource.Lit(s)) }

// sshKeys returns the keys that may log in, one per line, for the image's default user.
func (m *model) sshKeys(g *api.InstanceGroup) string {
	user := "admin"
	if name := g.Spec.Image[strings.LastIndex(g.Spec.Image, "/")+1:]; strings.HasPrefix(strings.ToLower(name), "ubuntu") {
		user = "ubuntu"
	}
	lines := make([]string, len(m.SSHKeys))
	for i, key := range m.SSHKeys {
		lines[i] = user + ": " + strings.TrimSpace(key)
	}
	return strings.Join(lines, "\n")
}

// kubeEnv describes a node of the group, for the autoscaler to use while the group has none.
func (m *model) kubeEnv(g *api.InstanceGroup) string {
	distribution, arch := "ubuntu", "amd64"
	if strings.HasPrefix(g.Spec.Image, "cos-cloud/") {
		distribution = "cos"
	}
	if image, _ := m.facts.Image(g.Spec.Image); image.Architecture == facts.ArchARM {
		arch = "arm64"
	}
	vars := []string{"os_distribution=" + distribution, "arch=" + arch, "os=linux"}
	var labels []string
	for _, k := range slices.Sorted(maps.Keys(g.Spec.NodeLabels)) {
		labels = append(labels, k+"="+g.Spec.NodeLabels[k])
	}
	if len(labels) > 0 {
		vars = append(vars, "node_labels="+strings.Join(labels, ","))
	}
	if len(g.Spec.Taints) > 0 {
		vars = append(vars, "node_taints="+strings.Join(g.Spec.Taints, ","))
	}
	return "AUTOSCALER_ENV_VARS: " + strings.Join(vars, ";")
}
