package model

import (
	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/gce/kinds"
	"kops.local/kops/internal/platform/gce/spec"
	"kops.local/kops/internal/spec/fill"
)

// groupName returns the name of a group's managed instance group in a zone.
func (m *model) groupName(g *api.InstanceGroup, zone string) string {
	return gcename.Group(g.Name, zone, m.name)
}

// managers returns the managed instance groups, one per zone of each group.
func (m *model) managers() ([]resource.Node, error) {
	var nodes []resource.Node
	for _, g := range m.Groups {
		zones, err := m.zonesOf(g)
		if err != nil {
			return nil, err
		}
		for i, zone := range zones {
			nodes = append(nodes, kinds.InstanceGroupManagers.New(m.groupName(g, zone), kinds.InstanceGroupManager{
				Name: m.groupName(g, zone), Zone: zone, BaseName: g.Name, TargetSize: int(spec.ShareOf(minSize(g), i, len(zones))), ListResults: "PAGINATED",
				Template:     kinds.GroupVersion{Template: kinds.InstanceTemplates.Out(gcename.TemplateNode(g.Name, m.name), "id")},
				UpdatePolicy: kinds.UpdatePolicy{MinimalAction: "REPLACE", Type: "OPPORTUNISTIC"},
				TargetPools:  m.pools(g),
			}))
		}
	}
	return nodes, nil
}

// minSize returns the initial number of machines of a group.
func minSize(g *api.InstanceGroup) int32 {
	usual := int32(1)
	if g.Spec.Role == api.RoleNode {
		usual = 2
	}
	return fill.Or(g.Spec.MinSize, usual)
}
