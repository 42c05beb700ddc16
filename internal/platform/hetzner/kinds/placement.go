package kinds

import (
	"context"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
)

// PlacementGroup keeps its servers on different hosts, so that a host that fails takes one of them. Only
// new servers join it.
type PlacementGroup struct {
	Name   string `res:"forbid" tf:"name"`
	Type   string `res:"forbid" tf:"type"`
	Labels Labels `tf:"labels"`

	IsUsed bool   `res:"out"` // whether it has servers that stay
	ID     string `res:"out,id" out:"id"`
}

// PlacementGroups is the kind of PlacementGroup.
var PlacementGroups = resource.Kind[PlacementGroup, *Client]{
	Name:  "hcloud_placement_group",
	API:   api,
	Tasks: []string{"PlacementGroup"},
	Early: true,
	Key:   func(g *PlacementGroup) string { return g.Name },
	Idle:  func(g *PlacementGroup) bool { return !g.IsUsed },
	List: func(ctx context.Context, c *Client, s resource.Scope) ([]*PlacementGroup, error) {
		return ownList(ctx, c, "placement_groups", s.Cluster, func(a hetznerapi.PlacementGroup) *PlacementGroup {
			return &PlacementGroup{Name: a.Name, Type: a.Type, Labels: a.Labels, IsUsed: len(a.Servers) > 0 && !s.All, ID: hetznerapi.Path("placement_groups", a.ID)}
		})
	},
	Create: func(ctx context.Context, c *Client, g *PlacementGroup) error {
		return create(ctx, c, "placement_groups", &g.ID, map[string]any{"name": g.Name, "type": g.Type, "labels": g.Labels})
	},
	Update: []resource.Setter[PlacementGroup, *Client]{relabel(func(g *PlacementGroup) (string, Labels) { return g.ID, g.Labels })},
	Delete: func(ctx context.Context, c *Client, g *PlacementGroup) error { return c.Delete(ctx, g.ID) },
}
