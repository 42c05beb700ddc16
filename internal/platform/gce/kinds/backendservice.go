package kinds

import (
	"context"
	"slices"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
)

// BackendService is a regional balancer's set of backends, which are groups of machines.
type BackendService struct {
	Name         string           `res:"forbid" tf:"name"`
	Scheme       string           `res:"forbid" tf:"load_balancing_scheme"` // "INTERNAL"
	Protocol     string           `res:"forbid" tf:"protocol"`              // "TCP"
	HealthChecks []resource.Value `tf:"health_checks"`                      // HealthCheck.ID
	Backends     []Backend        `tf:"backend,block"`

	ID string `res:"out,id" out:"id"`
}

// Backend is one group of machines.
type Backend struct {
	Group         resource.Value `tf:"group"`          // InstanceGroupManager.Group
	BalancingMode string         `tf:"balancing_mode"` // "CONNECTION"
}

// BackendServices is the kind of BackendService, which refers to groups and so is created after
// them.
var BackendServices = resource.Kind[BackendService, *Client]{
	Name:  "google_compute_region_backend_service",
	API:   apiCompute,
	Tasks: []string{"BackendService"},
	Early: true,
	Key:   func(b *BackendService) string { return b.Name },
	List:  listBackendServices,
	Create: func(ctx context.Context, c *Client, b *BackendService) error {
		b.ID = c.regional("backendServices", b.Name)
		return c.Await(ctx)(c.Compute.RegionBackendServices.Insert(c.Project, c.Region, &compute.BackendService{Name: b.Name, LoadBalancingScheme: b.Scheme, Protocol: b.Protocol,
			HealthChecks: urls(b.HealthChecks), Backends: b.backends()}).Context(ctx).Do())
	},
	Update: []resource.Setter[BackendService, *Client]{{Fields: []string{"HealthChecks", "Backends"}, Set: patchBackendService}},
	Delete: func(ctx context.Context, c *Client, b *BackendService) error {
		return fault.IgnoreGone(c.Await(ctx)(c.Compute.RegionBackendServices.Delete(c.Project, c.Region, b.Name).Context(ctx).Do()))
	},
}

// ownServices are the backend services of a cluster's own balancers.
var ownServices = []string{"api", "kops-controller", "etcd"}

// listBackendServices finds the backend services of the cluster's own balancers. With Scope.All it
// also finds those of the cluster's Services, and those whose backends are all groups of the
// cluster.
func listBackendServices(ctx context.Context, c *Client, s resource.Scope) ([]*BackendService, error) {
	w := &world{Scope: s, cluster: s.Cluster}
	groups, led := map[string]bool{}, map[string]bool{}
	if s.All {
		rules, err := w.forwardingRules(ctx, c)
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			led[gceapi.Link(r.BackendService)] = true
		}
		managers, err := listManagers(ctx, c, s)
		if err != nil {
			return nil, err
		}
		for _, m := range managers {
			groups[m.Group] = true
		}
	}
	list, err := c.allBackendServices(ctx)
	return selectObjects(list, err, func(d *compute.BackendService) bool {
		return w.isWanted(d.Name) || w.isOwnName(d.Name, ownServices...) || led[gceapi.Link(d.SelfLink)] ||
			len(d.Backends) > 0 && !slices.ContainsFunc(d.Backends, func(b *compute.Backend) bool { return !groups[gceapi.Link(b.Group)] })
	}, backendServiceOf)
}

func backendServiceOf(d *compute.BackendService) *BackendService {
	b := &BackendService{Name: d.Name, Scheme: d.LoadBalancingScheme, Protocol: d.Protocol, HealthChecks: links(d.HealthChecks), ID: gceapi.Link(d.SelfLink)}
	for _, x := range d.Backends {
		b.Backends = append(b.Backends, Backend{Group: link(x.Group), BalancingMode: x.BalancingMode})
	}
	return b
}

func (b *BackendService) backends() []*compute.Backend {
	out := []*compute.Backend{}
	for _, x := range b.Backends {
		out = append(out, &compute.Backend{Group: url(x.Group), BalancingMode: x.BalancingMode})
	}
	return out
}

// patchBackendService changes a backend service, starting from its current state.
func patchBackendService(ctx context.Context, c *Client, have, want *BackendService) error {
	current, err := gceapi.Result(c.Compute.RegionBackendServices.Get(c.Project, c.Region, have.Name).Context(ctx).Do())
	if err != nil {
		return err
	}
	return c.Await(ctx)(c.Compute.RegionBackendServices.Patch(c.Project, c.Region, have.Name, &compute.BackendService{Fingerprint: current.Fingerprint,
		HealthChecks: urls(want.HealthChecks), Backends: want.backends(), ForceSendFields: []string{"HealthChecks", "Backends"}}).Context(ctx).Do())
}
