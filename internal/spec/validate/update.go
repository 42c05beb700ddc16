package validate

import (
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/versions"
)

// Update checks a change of a stored cluster. exists reports whether an etcd already has volumes in
// the cloud; nil means that none has.
func Update(before, after *api.Cluster, exists func(etcd string) bool) diag.List {
	c := newCheck(Input{Cluster: after})
	c.object = api.KindCluster + "/" + before.Name
	if exists == nil {
		exists = func(string) bool { return false }
	}
	c.rule = "name-change"
	if before.Name != after.Name {
		c.Bad("metadata.name", after.Name, "cannot be changed; the cluster is "+before.Name+" in the state store", "create a new cluster with the new name")
	}
	c.warnBreaking(before, exists)
	for _, old := range before.Spec.EtcdClusters {
		i := slices.IndexFunc(after.Spec.EtcdClusters, func(e api.EtcdClusterSpec) bool { return e.Name == old.Name })
		if i < 0 {
			c.rule = "etcd-removed"
			c.Bad("spec.etcdClusters", old.Name, "an etcd cannot be removed from a cluster", "restore it")
			continue
		}
		if exists(old.Name) {
			c.etcdChange(At("spec.etcdClusters", i), old, after.Spec.EtcdClusters[i])
		}
	}
	return c.findings
}

// warnBreaking warns about changes that are possible, but break an existing cluster.
func (c *Check) warnBreaking(before *api.Cluster, exists func(string) bool) {
	if !slices.ContainsFunc(before.Spec.EtcdClusters, func(e api.EtcdClusterSpec) bool { return exists(e.Name) }) {
		return
	}
	was, is := PodNetworks(before), PodNetworks(c.Cluster)
	c.rule = "network-change"
	if !slices.Equal(was, is) {
		c.Warn("spec.networking", strings.Join(is, ", "), "replaces the pod network "+strings.Join(was, ", ")+" of a running cluster: pods on old and new machines cannot reach each other until every machine is replaced",
			"create a new cluster and move to it, or plan for an outage")
	}
	c.rule = "kubernetes-downgrade"
	old, err := versions.ParseVersion(before.Spec.KubernetesVersion)
	if now, nerr := versions.ParseVersion(c.Spec.KubernetesVersion); err == nil && nerr == nil && now.LT(old) {
		c.Warn("spec.kubernetesVersion", c.Spec.KubernetesVersion, "is older than "+before.Spec.KubernetesVersion+", the previous version in the spec: Kubernetes does not support downgrades, and objects may be lost",
			"restore "+quote(before.Spec.KubernetesVersion))
	}
}

// PodNetworks lists the names of the pod networks that a cluster uses.
func PodNetworks(cluster *api.Cluster) []string {
	var out []string
	newCheck(Input{Cluster: cluster}).EachNetwork(func(_ string, p PodNetwork) { out = append(out, p.Name) })
	return out
}

// etcdChange checks a change of an etcd that holds data.
func (c *Check) etcdChange(path string, before, after api.EtcdClusterSpec) {
	c.rule = "etcd-image-change"
	if before.Image != after.Image {
		c.Bad(path+".image", after.Image, "cannot be changed once the etcd exists", "restore "+quote(before.Image))
	}
	c.rule = "etcd-version-change"
	if before.Image != "" && before.Version != after.Version {
		c.Bad(path+".version", after.Version, "cannot be changed once the etcd exists, because its image is fixed", "restore "+quote(before.Version))
	}
	c.rule = "etcd-member-change"
	for j, m := range after.EtcdMembers {
		k := slices.IndexFunc(before.EtcdMembers, func(o api.EtcdMemberSpec) bool { return o.Name == m.Name })
		if k < 0 {
			continue
		}
		if was := text(before.EtcdMembers[k].InstanceGroup); was != text(m.InstanceGroup) {
			c.Bad(At(path+".etcdMembers", j)+".instanceGroup", text(m.InstanceGroup), "cannot be changed once the member exists", "restore "+quote(was)+", or add a member with another name")
		}
	}
}

func quote(s string) string { return `"` + s + `"` }
