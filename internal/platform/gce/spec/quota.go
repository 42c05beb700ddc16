package spec

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/fill"
	"kops.local/kops/internal/spec/validate"
)

// checkQuota warns if the cluster alone exceeds the project's quotas. Current usage is not considered,
// because it may be the cluster's own.
func checkQuota(c *validate.Check) {
	limits := ownFacts(c.Facts).Quotas
	if len(limits) == 0 || !c.Strict() {
		return
	}
	taken := neededQuotas(c)
	for _, metric := range slices.Sorted(maps.Keys(taken)) {
		if limit, known := limits[metric]; known && taken[metric] > limit {
			c.Warn("", "", fmt.Sprintf("needs %.0f of the quota %s in %s, but the project has only %.0f", taken[metric], metric, c.Facts.Region, limit),
				"request more (Google Cloud console, IAM & Admin, Quotas), or choose fewer or smaller machines")
		}
	}
}

// neededQuotas returns how much of each quota the minimum numbers of machines use, by metric (Compute
// Engine, "Allocation quotas").
func neededQuotas(c *validate.Check) map[string]float64 {
	out := map[string]float64{}
	for _, g := range c.Groups() {
		machines := 1.0
		if g.Spec.MinSize != nil {
			machines = float64(*g.Spec.MinSize)
		}
		out["INSTANCES"] += machines
		if t, known := c.Facts.MachineType(g.Spec.MachineType); known && fill.Or(g.Spec.GCPProvisioningModel, "") != "SPOT" {
			out[cpuMetric(g.Spec.MachineType)] += machines * float64(t.VCPU)
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
			disk(out, volume{cmp.Or(fill.Or(m.VolumeType, ""), etcdDisk), size}, 1)
		}
	}
	return out
}

// cpuMetric returns the quota metric for a machine type's CPUs.
func cpuMetric(machine string) string {
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

// rootVolume returns the boot disk of a group's machines; by default, it has kOps' size for the
// role.
func rootVolume(g *api.InstanceGroup) volume {
	v := volume{bootDisk, 128}
	switch g.Spec.Role {
	case api.RoleControlPlane:
		v.size = 64
	case api.RoleBastion:
		v.size = 32
	}
	if r := g.Spec.RootVolume; r != nil {
		v.kind = cmp.Or(fill.Or(r.Type, ""), v.kind)
		if r.Size != nil {
			v.size = *r.Size
		}
	}
	return v
}

// disk adds the quota usage of a number of disks.
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
