package spec

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/validate"
)

// quota warns where the cluster alone is more than its project may have. How much of a limit
// is free is not asked: what uses it may be the cluster itself.
func quota(c *validate.Check) {
	limits := own(c.Facts).Quotas
	if len(limits) == 0 || !c.Strict() {
		return
	}
	taken := needs(c)
	for _, metric := range slices.Sorted(maps.Keys(taken)) {
		if limit, known := limits[metric]; known && taken[metric] > limit {
			c.Warn("", "", fmt.Sprintf("needs %.0f of the quota %s in %s, and the project has %.0f", taken[metric], metric, c.Facts.Region, limit),
				"ask Google for more (console, IAM & Admin, Quotas), or choose fewer or smaller machines")
		}
	}
}

// needs is what the least numbers of machines take of the quotas, by the metric (Compute
// Engine, "Allocation quotas").
func needs(c *validate.Check) map[string]float64 {
	out := map[string]float64{}
	for _, g := range c.Groups() {
		machines := 1.0
		if g.Spec.MinSize != nil {
			machines = float64(*g.Spec.MinSize)
		}
		out["INSTANCES"] += machines
		if t, known := c.Facts.MachineType(g.Spec.MachineType); known && text(g.Spec.GCPProvisioningModel) != "SPOT" {
			out[cpus(g.Spec.MachineType)] += machines * float64(t.VCPU)
		}
		disk(out, rootVolume(g), machines)
		for _, a := range g.Spec.GuestAccelerators {
			out["GPUS_ALL_REGIONS"] += machines * float64(a.AcceleratorCount)
		}
	}
	for _, e := range c.Spec.EtcdClusters {
		for _, m := range e.EtcdMembers {
			size := int32(20)
			if m.VolumeSize != nil {
				size = *m.VolumeSize
			}
			disk(out, volume{cmp.Or(text(m.VolumeType), etcdDisk), size}, 1)
		}
	}
	return out
}

// cpus is the metric of the processors of a machine type.
func cpus(machine string) string {
	switch series, _, _ := strings.Cut(machine, "-"); series {
	case "e2", "f1", "g1", "n1", "custom":
		return "CPUS"
	default:
		return strings.ToUpper(series) + "_CPUS"
	}
}

// volume is the type and the size of a disk, in GB.
type volume struct {
	kind string
	size int32
}

// rootVolume is the disk of a group's machines: kOps' size for the role where nobody says it.
func rootVolume(g *api.InstanceGroup) volume {
	v := volume{bootDisk, 128}
	switch g.Spec.Role {
	case api.RoleControlPlane:
		v.size = 64
	case api.RoleBastion:
		v.size = 32
	}
	if r := g.Spec.RootVolume; r != nil {
		v.kind = cmp.Or(text(r.Type), v.kind)
		if r.Size != nil {
			v.size = *r.Size
		}
	}
	return v
}

// disk adds what a number of disks take.
func disk(to map[string]float64, v volume, number float64) {
	switch v.kind {
	case "pd-standard":
		to["DISKS_TOTAL_GB"] += number * float64(v.size)
	case "pd-balanced", "pd-ssd":
		to["SSD_TOTAL_GB"] += number * float64(v.size)
	case "hyperdisk-balanced":
		to["HDB_TOTAL_GB"] += number * float64(v.size)
	}
}
