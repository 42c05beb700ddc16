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
	Groups []*api.InstanceGroup // sorted by name
	// Hosts are enrolled machines of the user, sorted by name.
	Hosts []*api.Host
	// Additional are additional Kubernetes objects to create in the cluster.
	Additional []api.Object
	// Warnings are about unknown parts of the documents, which were dropped.
	Warnings finding.List

	read *clusterstore.Contents // the documents; nil when they were not read
}

func newCluster(c *clusterstore.Contents) *Cluster {
	return &Cluster{Spec: c.Spec, Groups: c.Groups, Hosts: c.Hosts, Additional: c.Additional, Warnings: c.Warnings, read: c}
}

// stored returns the cluster in the type of the store.
func (c *Cluster) stored() *clusterstore.Contents {
	var out clusterstore.Contents
	if c.read != nil {
		out = *c.read
	}
	out.Spec, out.Groups, out.Hosts, out.Additional, out.Warnings = c.Spec, c.Groups, c.Hosts, c.Additional, c.Warnings
	return &out
}

// Group returns the group with a name, or nil.
func (c *Cluster) Group(name string) *api.InstanceGroup { return c.stored().Group(name) }

// SelectGroups returns the groups with the names, or all groups if there are no names.
func (c *Cluster) SelectGroups(names ...string) ([]*api.InstanceGroup, error) {
	return c.stored().SelectGroups(names...)
}

// Unread returns warnings about the unknown parts of an object's text, and the text; the
// list is empty if all of it is known.
func (c *Cluster) Unread(o api.Object) (finding.List, string) { return c.stored().Unrecognized(o) }

// Objects lists all objects: the cluster, its groups, and the additional objects.
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
