package gce

import (
	"cmp"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/kinds"
	"kops.local/kops/internal/platform/gce/spec"
)

// sharedObjects lists what a cluster uses but does not own.
func sharedObjects(c *api.Cluster) ([]resource.Node, error) {
	var out []resource.Node
	project, n := c.Spec.CloudProvider.GCE.Project, c.Spec.Networking
	if n.NetworkID != "" {
		host, name, _ := spec.ParseNetwork(n.NetworkID)
		project = cmp.Or(host, project)
		out = append(out, kinds.Networks.Adopt(n.NetworkID, project+"/"+name, kinds.Network{}))
	}
	for _, s := range n.Subnets {
		if s.ID != "" {
			id := "projects/" + project + "/regions/" + s.Region + "/subnetworks/" + s.ID
			out = append(out, kinds.Subnetworks.Adopt(s.ID, id, kinds.Subnetwork{}))
		}
	}
	return out, nil
}
