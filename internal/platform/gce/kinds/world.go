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

// world determines which unlabelled objects belong to the cluster. Names are not enough: the object
// api-my of example.com and the object api of my.example.com have the same name. Templates contain
// their cluster's full name, and what they use belongs to that cluster.
type world struct {
	resource.Scope
	cluster string
	network string // the ID of the cluster's own network, if it has one
	// templates are the cluster's templates, and usedObjects the links of the subnetworks that they use.
	templates   []*compute.InstanceTemplate
	usedObjects map[string]bool
	// otherClusters are the other clusters of the project, according to their templates.
	otherClusters []string
}

// newWorld reads what determines which objects are the cluster's.
func newWorld(ctx context.Context, c *Client, s resource.Scope) (*world, error) {
	all, err := c.allTemplates(ctx)
	if err != nil {
		return nil, err
	}
	w := &world{Scope: s, cluster: s.Cluster, network: c.ownNetworkID(s.Cluster), usedObjects: map[string]bool{}}
	for _, t := range all {
		if templateMetadata(t, gcecloud.MetadataGroup) == "" { // Google's own clusters use the same key
			continue
		}
		switch name := templateMetadata(t, gcecloud.MetadataCluster); name {
		case s.Cluster:
			w.templates = append(w.templates, t)
			for _, n := range t.Properties.NetworkInterfaces {
				w.usedObjects[gceapi.Link(n.Subnetwork)] = true
			}
		default:
			if gcecloud.Label(name) == gcecloud.Label(s.Cluster) {
				return nil, fault.Wrap(fault.Permanent, fmt.Errorf("the cluster %s in the project %s already uses the resource names that %s would use", name, c.Project, s.Cluster),
					"choose another name or project: names of clusters in one project must differ in more than dots and dashes")
			}
			w.otherClusters = append(w.otherClusters, name)
		}
	}
	slices.Sort(w.otherClusters)
	w.otherClusters = slices.Compact(w.otherClusters)
	return w, nil
}

// isWanted reports whether the object of that name is wanted.
func (w *world) isWanted(name string) bool { return slices.Contains(w.Names, name) }

// isOwnName reports whether a name is the full name of one of the cluster's objects.
func (w *world) isOwnName(name string, objects ...string) bool {
	return slices.ContainsFunc(objects, func(o string) bool { return name == gcename.Suffixed(o, w.cluster) })
}

// isOthersName reports whether a name more likely belongs to a known cluster whose name ends in this
// one's.
func (w *world) isOthersName(name string) bool {
	return slices.ContainsFunc(w.otherClusters, func(o string) bool {
		_, ok := gcename.Part(name, o)
		return ok && len(o) > len(w.cluster)
	})
}

// managers returns the cluster's managed groups in its region: those whose template is one of the
// cluster's.
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
		if m.Zone != "" && c.inRegion(m.Zone) && own[gceapi.Link(templateOf(m))] {
			out = append(out, m)
		}
	}
	return out, nil
}

// services returns the names of the balancers that the cloud controller created for Services of the
// cluster, according to the firewall rules for its machines. It is empty without Scope.All.
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
		if name, ok := cutService(f.Name); ok && w.targetsMachines(f) {
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

// templateOf returns the URL of the template from which a group creates machines.
func templateOf(m *compute.InstanceGroupManager) string {
	if m.InstanceTemplate == "" && len(m.Versions) > 0 {
		return m.Versions[0].InstanceTemplate
	}
	return m.InstanceTemplate
}
