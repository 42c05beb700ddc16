package kinds

import (
	"context"
	"strings"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
)

// HTTPHealthCheck is a global legacy health check, the only type that target pools accept.
type HTTPHealthCheck struct {
	Name string `res:"forbid" tf:"name"`
	Port int    `tf:"port"`
	Path string `tf:"request_path"`

	ID string `res:"out,id" out:"id" tf:"self_link"`
}

// HTTPHealthChecks is the kind of HTTPHealthCheck.
var HTTPHealthChecks = resource.Kind[HTTPHealthCheck, *Client]{
	Name:  "google_compute_http_health_check",
	API:   apiCompute,
	Phase: resource.Security,
	Tasks: []string{"HTTPHealthcheck"},
	Early: true,
	Key:   func(h *HTTPHealthCheck) string { return h.Name },
	List:  listHTTPHealthChecks,
	Create: func(ctx context.Context, c *Client, h *HTTPHealthCheck) error {
		h.ID = "projects/" + c.Project + "/global/httpHealthChecks/" + h.Name
		return c.Await(ctx)(c.Compute.HttpHealthChecks.Insert(c.Project, h.request()).Context(ctx).Do())
	},
	Update: []resource.Setter[HTTPHealthCheck, *Client]{{Fields: []string{"Port", "Path"}, Set: func(ctx context.Context, c *Client, have, want *HTTPHealthCheck) error {
		return c.Await(ctx)(c.Compute.HttpHealthChecks.Patch(c.Project, have.Name, want.request()).Context(ctx).Do())
	}}},
	Delete: func(ctx context.Context, c *Client, h *HTTPHealthCheck) error {
		return fault.IgnoreGone(c.Await(ctx)(c.Compute.HttpHealthChecks.Delete(c.Project, h.Name).Context(ctx).Do()))
	},
}

func (h *HTTPHealthCheck) request() *compute.HttpHealthCheck {
	return &compute.HttpHealthCheck{Name: h.Name, Port: int64(h.Port), RequestPath: h.Path}
}

// listHTTPHealthChecks finds the API's check and, with Scope.All, the cloud controller's checks for
// the target pools of the cluster's Services.
func listHTTPHealthChecks(ctx context.Context, c *Client, s resource.Scope) ([]*HTTPHealthCheck, error) {
	w := &world{Scope: s, cluster: s.Cluster}
	used := map[string]bool{}
	if s.All {
		pools, err := w.targetPools(ctx, c)
		if err != nil {
			return nil, err
		}
		for _, p := range pools {
			for _, h := range p.HealthChecks {
				used[gceapi.Link(h)] = strings.HasPrefix(gceapi.Name(h), servicePrefix) || gceapi.Name(h) == p.Name
			}
		}
	}
	list, err := c.allHTTPHealthChecks(ctx)
	return selectObjects(list, err, func(d *compute.HttpHealthCheck) bool {
		return w.isWanted(d.Name) || w.isOwnName(d.Name, "api") || used[gceapi.Link(d.SelfLink)]
	}, func(d *compute.HttpHealthCheck) *HTTPHealthCheck {
		return &HTTPHealthCheck{Name: d.Name, Port: int(d.Port), Path: d.RequestPath, ID: gceapi.Link(d.SelfLink)}
	})
}

// HealthCheck is a regional health check: one of TCP and SSL is set.
type HealthCheck struct {
	Name string     `res:"forbid" tf:"name"`
	TCP  *CheckPort `tf:"tcp_health_check,block"`
	SSL  *CheckPort `tf:"ssl_health_check,block"`

	ID string `res:"out,id" out:"id"`
}

// CheckPort is the port to which a check connects.
type CheckPort struct {
	Port int `tf:"port"`
}

// HealthChecks is the kind of HealthCheck.
var HealthChecks = resource.Kind[HealthCheck, *Client]{
	Name:  "google_compute_region_health_check",
	API:   apiCompute,
	Phase: resource.Security,
	Tasks: []string{"HealthCheck"},
	Early: true,
	Key:   func(h *HealthCheck) string { return h.Name },
	List:  listHealthChecks,
	Create: func(ctx context.Context, c *Client, h *HealthCheck) error {
		h.ID = c.regional("healthChecks", h.Name)
		return c.Await(ctx)(c.Compute.RegionHealthChecks.Insert(c.Project, c.Region, h.request()).Context(ctx).Do())
	},
	Update: []resource.Setter[HealthCheck, *Client]{{Fields: []string{"TCP", "SSL"}, Set: func(ctx context.Context, c *Client, have, want *HealthCheck) error {
		return c.Await(ctx)(c.Compute.RegionHealthChecks.Update(c.Project, c.Region, have.Name, want.request()).Context(ctx).Do())
	}}},
	Delete: func(ctx context.Context, c *Client, h *HealthCheck) error {
		return fault.IgnoreGone(c.Await(ctx)(c.Compute.RegionHealthChecks.Delete(c.Project, c.Region, h.Name).Context(ctx).Do()))
	},
}

func (h *HealthCheck) request() *compute.HealthCheck {
	d := &compute.HealthCheck{Name: h.Name}
	if h.TCP != nil {
		d.Type, d.TcpHealthCheck = "TCP", &compute.TCPHealthCheck{Port: int64(h.TCP.Port)}
	}
	if h.SSL != nil {
		d.Type, d.SslHealthCheck = "SSL", &compute.SSLHealthCheck{Port: int64(h.SSL.Port)}
	}
	return d
}

func healthCheckOf(d *compute.HealthCheck) *HealthCheck {
	h := &HealthCheck{Name: d.Name, ID: gceapi.Link(d.SelfLink)}
	if t := d.TcpHealthCheck; t != nil {
		h.TCP = &CheckPort{int(t.Port)}
	}
	if t := d.SslHealthCheck; t != nil {
		h.SSL = &CheckPort{int(t.Port)}
	}
	return h
}

// listHealthChecks finds the checks of the cluster's own balancers and, with Scope.All, the other
// checks used by its backend services.
func listHealthChecks(ctx context.Context, c *Client, s resource.Scope) ([]*HealthCheck, error) {
	w := &world{Scope: s, cluster: s.Cluster}
	used := map[string]bool{}
	if s.All {
		services, err := listBackendServices(ctx, c, s)
		if err != nil {
			return nil, err
		}
		for _, b := range services {
			for _, h := range resource.Texts(b.HealthChecks) {
				used[h] = true
			}
		}
	}
	list, err := c.allHealthChecks(ctx)
	return selectObjects(list, err, func(d *compute.HealthCheck) bool {
		return w.isWanted(d.Name) || w.isOwnName(d.Name, "api", "kops-controller", "etcd-main") || used[gceapi.Link(d.SelfLink)]
	}, healthCheckOf)
}
