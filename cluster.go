package kops

import (
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/finding"
	"kops.local/kops/internal/store/clusterstore"
)

// Cluster is a stored cluster with its groups and additional objects, as users wrote them.
type Cluster struct {
	Spec   *api.Cluster
	Groups []*api.InstanceGroup // in the order of their names
	// Hosts are machines of the user that were enrolled, in the order of their names.
	Hosts []*api.Host
	// Additional are further Kubernetes objects that the cluster gets.
	Additional []api.Object
	// Warnings are about what in the documents was not understood, and dropped.
	Warnings finding.List

	read *clusterstore.Contents // the documents; nil when they were not read
}

func newCluster(c *clusterstore.Contents) *Cluster {
	return &Cluster{Spec: c.Spec, Groups: c.Groups, Hosts: c.Hosts, Additional: c.Additional, Warnings: c.Warnings, read: c}
}

// stored is the cluster as the store takes it.
func (c *Cluster) stored() *clusterstore.Contents {
	var out clusterstore.Contents
	if c.read != nil {
		out = *c.read
	}
	out.Spec, out.Groups, out.Hosts, out.Additional, out.Warnings = c.Spec, c.Groups, c.Hosts, c.Additional, c.Warnings
	return &out
}

// Group returns the group of a name, or nil.
func (c *Cluster) Group(name string) *api.InstanceGroup { return c.stored().Group(name) }

// SelectGroups returns the groups with the names, or all groups if there are no names.
func (c *Cluster) SelectGroups(names ...string) ([]*api.InstanceGroup, error) {
	return c.stored().SelectGroups(names...)
}

// Unread returns what was not understood in the text of an object, and the text; the
// list is empty when all of it was understood.
func (c *Cluster) Unread(o api.Object) (finding.List, string) { return c.stored().Unread(o) }

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
