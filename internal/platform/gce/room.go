package gce

import (
	"context"
	"fmt"
	"path"
	"strings"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/kinds"
)

// quota is a quota of the region, and how much of it a machine uses.
type quota struct {
	metric string
	amount float64
}

// room returns how many more machines the region's quotas allow, with one request, and one more per
// machine type.
func room(ctx context.Context, s *platform.Session, _ *api.Cluster, groups []*api.InstanceGroup) ([]platform.Room, error) {
	c := s.Client.(*kinds.Client)
	region, err := c.Compute.Regions.Get(c.Project, c.Region).Context(ctx).Do()
	if err != nil {
		return nil, fmt.Errorf("get the quotas of %s: %w", c.Region, gceapi.PlainError(err))
	}
	left := map[string]float64{}
	for _, q := range region.Quotas {
		left[q.Metric] = q.Limit - q.Usage
	}
	types := map[string]*compute.MachineType{}
	var out []platform.Room
	for _, g := range groups {
		if len(g.Spec.Zones) == 0 {
			continue
		}
		at := g.Spec.Zones[0] + "/" + g.Spec.MachineType
		if types[at] == nil {
			if types[at], err = c.Compute.MachineTypes.Get(c.Project, g.Spec.Zones[0], g.Spec.MachineType).Context(ctx).Do(); err != nil {
				return nil, fmt.Errorf("get the machine type %s: %w", at, gceapi.PlainError(err))
			}
		}
		if r, known := roomWithin(left, quotaUse(g, types[at])); known {
			r.Group = g.Name
			out = append(out, r)
		}
	}
	return out, nil
}

// quotaUse returns how much of each quota a machine of a group uses.
func quotaUse(g *api.InstanceGroup, t *compute.MachineType) []quota {
	family, _, _ := strings.Cut(path.Base(t.Name), "-")
	cpus := "CPUS"
	if family != "n1" && family != "e2" && family != "f1" && family != "g1" {
		cpus = strings.ToUpper(family) + "_CPUS"
	}
	out := []quota{{"INSTANCES", 1}, {cpus, float64(t.GuestCpus)}}
	if public := g.Spec.AssociatePublicIP; public != nil && *public {
		out = append(out, quota{"IN_USE_ADDRESSES", 1})
	}
	if g.Spec.GCPProvisioningModel != nil && *g.Spec.GCPProvisioningModel == "SPOT" {
		out = append(out, quota{"PREEMPTIBLE_CPUS", float64(t.GuestCpus)})
	}
	return out
}

// roomWithin returns how many machines the tightest quota allows; known is false if no quota is known.
func roomWithin(left map[string]float64, takes []quota) (r platform.Room, known bool) {
	for _, q := range takes {
		l, ok := left[q.metric]
		if !ok || q.amount == 0 {
			continue
		}
		if n := int(max(l, 0) / q.amount); !known || n < r.Machines {
			r, known = platform.Room{Machines: n, Why: fmt.Sprintf("the region's quota %s has %g left", q.metric, l),
				Remedy: "request a higher quota " + q.metric + " in the Google Cloud console (IAM & Admin, Quotas), or use a smaller or another machine type"}, true
		}
	}
	return r, known
}
