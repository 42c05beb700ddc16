package kops

import (
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/store/clusterstore"
)

// Cluster is a stored cluster with its groups and additional objects, as users wrote them.
type Cluster struct{ *clusterstore.Contents }

// Objects lists everything: the cluster, its groups, and the additional objects.
func (c *Cluster) Objects() []api.Object {
	out := []api.Object{c.Spec}
	for _, g := range c.Groups {
		out = append(out, g)
	}
	for _, h := range c.Hosts {
		out = append(out, h)
	}
	return append(out, c.Additional...)
}

// GroupName is an instance group and the cluster it belongs to.
type GroupName struct{ Cluster, Name string }

// Named lists the clusters among objects, and the groups whose cluster is not
// among them.
func Named(objs []api.Object) (clusters []string, groups []GroupName) {
	for _, o := range objs {
		if c, ok := o.(*api.Cluster); ok {
			clusters = append(clusters, c.Name)
		}
	}
	for _, o := range objs {
		if g, ok := o.(*api.InstanceGroup); ok && !slices.Contains(clusters, g.Labels[api.LabelCluster]) {
			groups = append(groups, GroupName{g.Labels[api.LabelCluster], g.Name})
		}
	}
	return clusters, groups
}
