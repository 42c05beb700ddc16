package kinds

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/gcename"
)

// world is what proves whose an object is that has no labels. Names alone do not: the object
// api-my of example.com and the object api of my.example.com have one name. Templates name
// their cluster in full, and what they use is that cluster's.
type world struct {
	resource.Scope
	cluster string
	network string // the ID of the network that is the cluster's own, where it has one
	// templates are the cluster's, and uses has the links of the subnetworks that they use.
	templates []*compute.InstanceTemplate
	uses      map[string]bool
	// others are further clusters of the project, as their templates tell.
	others []string
}

// worldOf finds out what proves that objects are the cluster's.
func worldOf(ctx context.Context, c *Client, s resource.Scope) (*world, error) {
	all, err := c.allTemplates(ctx)
	if err != nil {
		return nil, err
	}
	w := &world{Scope: s, cluster: s.Cluster, network: c.ownNetwork(s.Cluster), uses: map[string]bool{}}
	for _, t := range all {
		if templateMetadata(t, gcecloud.MetadataGroup) == "" { // Google's own clusters name themselves by the same key
			continue
		}
		switch name := templateMetadata(t, gcecloud.MetadataCluster); name {
		case s.Cluster:
			w.templates = append(w.templates, t)
			for _, n := range t.Properties.NetworkInterfaces {
				w.uses[gceapi.Link(n.Subnetwork)] = true
			}
		default:
			if gcecloud.Label(name) == gcecloud.Label(s.Cluster) {
				return nil, fault.Wrap(fault.Permanent, fmt.Errorf("the cluster %s of the project %s has the names that %s would have", name, c.Project, s.Cluster),
					"names differ by more than their dots and dashes where clusters share a project: choose another name or project")
			}
			w.others = append(w.others, name)
		}
	}
	slices.Sort(w.others)
	w.others = slices.Compact(w.others)
	return w, nil
}

// wanted reports whether an object is wanted by its name.
func (w *world) wanted(name string) bool { return slices.Contains(w.Names, name) }

// is reports whether a name belongs to one of the objects of the cluster.
func (w *world) is(name string, objects ...string) bool {
	return slices.ContainsFunc(objects, func(o string) bool { return name == gcename.Suffixed(o, w.cluster) })
}

// anothers reports whether a name more likely is of a known cluster whose name ends in this one's.
func (w *world) anothers(name string) bool {
	return slices.ContainsFunc(w.others, func(o string) bool {
		_, ok := gcename.Part(name, o)
		return ok && len(o) > len(w.cluster)
	})
}

// managers are the managed groups of the cluster in its region: those that make machines of its templates.
func (w *world) managers(ctx context.Context, c *Client) ([]*compute.InstanceGroupManager, error) {
	own := map[string]bool{}
	for _, t := range w.templates {
		own[gceapi.Link(t.SelfLink)] = true
	}
	all, err := c.allManagers(ctx)
	if err != nil {
		return nil, err
	}
	var out []*compute.InstanceGroupManager
	for _, m := range all {
		if m.Zone != "" && c.here(m.Zone) && own[gceapi.Link(templateOf(m))] {
			out = append(out, m)
		}
	}
	return out, nil
}

// services are the names of the balancers that the cloud controller made for services of the
// cluster, as the firewall rules to its machines tell. Only a deletion asks for them.
func (w *world) services(ctx context.Context, c *Client) (map[string]bool, error) {
	if !w.All {
		return nil, nil
	}
	all, err := c.allFirewalls(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, f := range all {
		if name, ok := cutService(f.Name); ok && w.toMachines(f) {
			out[name] = true
		}
	}
	return out, nil
}

func templateMetadata(t *compute.InstanceTemplate, key string) string {
	if t.Properties == nil {
		return ""
	}
	return gceapi.Metadata(t.Properties.Metadata, key)
}

// templateOf is the URL of the template of which a group makes machines.
func templateOf(m *compute.InstanceGroupManager) string {
	if m.InstanceTemplate == "" && len(m.Versions) > 0 {
		return m.Versions[0].InstanceTemplate
	}
	return m.InstanceTemplate
}
