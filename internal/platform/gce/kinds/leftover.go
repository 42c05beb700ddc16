package kinds

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcecloud"
)

// errDeletedOnly is returned by an attempt to create an object of a kind that only deletions use.
var errDeletedOnly = errors.New("objects of this kind are found and deleted, never declared")

// Instance is a machine that belongs to a cluster but to none of its managed groups: a group
// abandoned it, or another program created it. It is only ever deleted, with its cluster.
type Instance struct {
	Zone       string           `res:"forbid"`
	Network    resource.Value   `res:"forbid"`
	Subnetwork resource.Value   `res:"forbid"`
	Disks      []resource.Value `res:"forbid"` // the disks that outlive it

	ID string `res:"out,id"`
}

// Instances is the kind of Instance.
var Instances = resource.Kind[Instance, *Client]{
	Name:   "google_compute_instance",
	Direct: true,
	API:    apiCompute,
	Key:    func(i *Instance) string { return gceapi.Name(i.ID) },
	List:   listInstances,
	Create: func(context.Context, *Client, *Instance) error { return errDeletedOnly },
	Delete: func(ctx context.Context, c *Client, i *Instance) error {
		return fault.IgnoreGone(c.Await(ctx)(c.Compute.Instances.Delete(c.Project, i.Zone, gceapi.Name(i.ID)).Context(ctx).Do()))
	},
}

func listInstances(ctx context.Context, c *Client, s resource.Scope) ([]*Instance, error) {
	if !s.All {
		return nil, nil
	}
	w, err := newWorld(ctx, c, s)
	if err != nil {
		return nil, err
	}
	managers, err := w.managers(ctx, c)
	if err != nil {
		return nil, err
	}
	_, free, err := w.machines(ctx, c, managers)
	return selectObjects(free, err, func(*compute.Instance) bool { return true }, func(d *compute.Instance) *Instance {
		i := &Instance{Zone: gceapi.Name(d.Zone), ID: gceapi.Link(d.SelfLink)}
		for _, n := range d.NetworkInterfaces {
			i.Network, i.Subnetwork = networkRef(n.Network), link(n.Subnetwork)
		}
		for _, x := range d.Disks {
			if !x.AutoDelete {
				i.Disks = append(i.Disks, link(x.Source))
			}
		}
		return i
	})
}

// Route is a route to the pods of a machine. The cloud controller creates routes; kops only deletes
// them.
type Route struct {
	Network resource.Value `res:"forbid"`
	ID      string         `res:"out,id"`
}

// Routes is the kind of Route.
var Routes = resource.Kind[Route, *Client]{
	Name:   "google_compute_route",
	Direct: true,
	API:    apiCompute,
	Phase:  resource.Network,
	Key:    func(r *Route) string { return gceapi.Name(r.ID) },
	List:   listRoutes,
	Create: func(context.Context, *Client, *Route) error { return errDeletedOnly },
	Delete: func(ctx context.Context, c *Client, r *Route) error {
		return fault.IgnoreGone(c.Await(ctx)(c.Compute.Routes.Delete(c.Project, gceapi.Name(r.ID)).Context(ctx).Do()))
	},
}

// routeName matches the cloud controller's route names: the cluster's name, which may be truncated,
// and a UUID.
var routeName = regexp.MustCompile(`^(.+)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// listRoutes finds the routes that are named after the cluster and lead to its machines, and those
// in its own network whose machine is gone.
func listRoutes(ctx context.Context, c *Client, s resource.Scope) ([]*Route, error) {
	if !s.All {
		return nil, nil
	}
	machines, err := c.allInstances(ctx, s.Cluster)
	if err != nil {
		return nil, err
	}
	own := map[string]bool{}
	for _, m := range machines {
		own[gceapi.Link(m.SelfLink)] = true
	}
	list, err := c.allRoutes(ctx)
	return selectObjects(list, err, func(d *compute.Route) bool {
		m := routeName.FindStringSubmatch(d.Name)
		if m == nil || !strings.HasPrefix(gcecloud.Label(s.Cluster), m[1]) {
			return false
		}
		dangling := slices.ContainsFunc(d.Warnings, func(w *compute.RouteWarnings) bool { return w.Code == "NEXT_HOP_INSTANCE_NOT_FOUND" })
		return own[gceapi.Link(d.NextHopInstance)] || dangling && networkID(d.Network) == c.ownNetworkID(s.Cluster)
	}, func(d *compute.Route) *Route {
		return &Route{Network: networkRef(d.Network), ID: gceapi.Link(d.SelfLink)}
	})
}

// InstanceGroup is an unmanaged group that the cloud controller creates per zone for Services with
// an internal load balancer. kops only deletes it.
type InstanceGroup struct {
	Zone       string         `res:"forbid"`
	Network    resource.Value `res:"forbid"`
	Subnetwork resource.Value `res:"forbid"`

	ID string `res:"out,id"`
}

// InstanceGroups is the kind of InstanceGroup.
var InstanceGroups = resource.Kind[InstanceGroup, *Client]{
	Name:   "google_compute_instance_group",
	Direct: true,
	API:    apiCompute,
	Key:    func(g *InstanceGroup) string { return gceapi.Name(g.ID) },
	List:   listInstanceGroups,
	Create: func(context.Context, *Client, *InstanceGroup) error { return errDeletedOnly },
	Delete: func(ctx context.Context, c *Client, g *InstanceGroup) error { // its machines stay
		return fault.IgnoreGone(c.Await(ctx)(c.Compute.InstanceGroups.Delete(c.Project, g.Zone, gceapi.Name(g.ID)).Context(ctx).Do()))
	},
}

// serviceGroupPrefix is the prefix of the names of the cloud controller's groups.
const serviceGroupPrefix = "k8s-ig--"

// listInstanceGroups finds the groups behind the balancers of the cluster's Services, and leftover
// ones in its own network.
func listInstanceGroups(ctx context.Context, c *Client, s resource.Scope) ([]*InstanceGroup, error) {
	if !s.All {
		return nil, nil
	}
	services, err := listBackendServices(ctx, c, s)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, b := range services {
		for _, x := range b.Backends {
			used[x.Group.Text()] = true
		}
	}
	list, err := c.allInstanceGroups(ctx)
	return selectObjects(list, err, func(d *compute.InstanceGroup) bool {
		return strings.HasPrefix(d.Name, serviceGroupPrefix) && (used[gceapi.Link(d.SelfLink)] || networkID(d.Network) == c.ownNetworkID(s.Cluster))
	}, func(d *compute.InstanceGroup) *InstanceGroup {
		return &InstanceGroup{Zone: gceapi.Name(d.Zone), Network: networkRef(d.Network), Subnetwork: link(d.Subnetwork), ID: gceapi.Link(d.SelfLink)}
	})
}

// GlobalHealthCheck is a global check that the cloud controller creates for internal load
// balancers. kops only deletes it.
type GlobalHealthCheck struct {
	ID string `res:"out,id"`
}

// GlobalHealthChecks is the kind of GlobalHealthCheck.
var GlobalHealthChecks = resource.Kind[GlobalHealthCheck, *Client]{
	Name:   "google_compute_health_check",
	Direct: true,
	API:    apiCompute,
	Phase:  resource.Security,
	Key:    func(h *GlobalHealthCheck) string { return gceapi.Name(h.ID) },
	List:   listGlobalHealthChecks,
	Create: func(context.Context, *Client, *GlobalHealthCheck) error { return errDeletedOnly },
	Delete: func(ctx context.Context, c *Client, h *GlobalHealthCheck) error {
		return fault.IgnoreGone(c.Await(ctx)(c.Compute.HealthChecks.Delete(c.Project, gceapi.Name(h.ID)).Context(ctx).Do()))
	},
}

// listGlobalHealthChecks finds the checks of the cluster's Services: those with the cloud
// controller's prefix, or with the name of their Service.
func listGlobalHealthChecks(ctx context.Context, c *Client, s resource.Scope) ([]*GlobalHealthCheck, error) {
	if !s.All {
		return nil, nil
	}
	services, err := listBackendServices(ctx, c, s)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, b := range services {
		for _, h := range resource.Texts(b.HealthChecks) {
			used[h] = used[h] || strings.HasPrefix(gceapi.Name(h), servicePrefix) || gceapi.Name(h) == b.Name
		}
	}
	list, err := c.allGlobalHealthChecks(ctx)
	return selectObjects(list, err, func(d *compute.HealthCheck) bool { return used[gceapi.Link(d.SelfLink)] }, func(d *compute.HealthCheck) *GlobalHealthCheck {
		return &GlobalHealthCheck{ID: gceapi.Link(d.SelfLink)}
	})
}
