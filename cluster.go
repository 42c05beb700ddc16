package kops

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/diag"
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
	return append(out, c.Additional...)
}

// SelectGroups returns the groups of the names, or all when none is named.
func (c *Cluster) SelectGroups(names ...string) ([]*api.InstanceGroup, error) {
	if len(names) == 0 {
		return c.Groups, nil
	}
	var out []*api.InstanceGroup
	for _, n := range names {
		g := c.Group(n)
		if g == nil {
			return nil, c.noGroup(n)
		}
		out = append(out, g)
	}
	return out, nil
}

func (c *Cluster) noGroup(name string) error {
	var known []string
	for _, g := range c.Groups {
		known = append(known, g.Name)
	}
	if near := diag.Nearest(name, known); near != "" {
		return fmt.Errorf("instancegroup %q not found in cluster %s; did you mean %q?", name, c.Spec.Name, near)
	}
	return fmt.Errorf("instancegroup %q not found in cluster %s; it has %s", name, c.Spec.Name, strings.Join(known, ", "))
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
