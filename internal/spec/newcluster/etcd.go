package newcluster

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"kops.local/kops/api"
)

// setEtcd gives every control plane a member of every etcd.
func (b *Builder) setEtcd() {
	var groups []string
	for _, g := range b.groups {
		if g.IsControlPlane() {
			groups = append(groups, g.Name)
		}
	}
	names := memberNames(groups)
	encrypted := b.EncryptEtcdStorage
	if encrypted == nil && b.platform.Machines.EtcdEncrypted {
		on := true
		encrypted = &on
	}
	for _, name := range b.EtcdClusters {
		cpu, memory := resource.MustParse("100m"), resource.MustParse("100Mi")
		if name == "main" {
			cpu = resource.MustParse("200m")
		}
		e := api.EtcdClusterSpec{Name: name, CPURequest: &cpu, MemoryRequest: &memory}
		for i, group := range groups {
			e.EtcdMembers = append(e.EtcdMembers, api.EtcdMemberSpec{
				Name: names[i], InstanceGroup: &group, EncryptedVolume: encrypted, VolumeType: NotEmpty(b.EtcdStorageType),
			})
		}
		b.Spec.EtcdClusters = append(b.Spec.EtcdClusters, e)
	}
}

// MemberName returns a short name for the member of an etcd in a group, distinct from the others.
func MemberName(group string, others []api.EtcdMemberSpec) string {
	taken := func(name string) bool {
		return name == "" || slices.ContainsFunc(others, func(m api.EtcdMemberSpec) bool { return m.Name == name })
	}
	if name := memberNames([]string{group})[0]; !taken(name) {
		return name
	}
	return group
}

// memberNames returns short names for the members of an etcd in the groups: what follows their
// common prefix, at least one character. A name never begins with a digit.
func memberNames(groups []string) []string {
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = strings.TrimPrefix(strings.TrimPrefix(g, "control-plane-"), "master-")
	}
	for len(names) > 0 && len(names[0]) > 1 && sameFirst(names) {
		for i := range names {
			names[i] = names[i][1:]
		}
	}
	for i, n := range names {
		if n != "" && n[0] >= '0' && n[0] <= '9' {
			names[i] = "etcd-" + n
		}
	}
	return names
}

func sameFirst(names []string) bool {
	for _, n := range names {
		if len(n) < 2 || n[0] != names[0][0] {
			return false
		}
	}
	return true
}
