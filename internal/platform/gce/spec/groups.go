package spec

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/fill"
	"kops.local/kops/internal/spec/validate"
)

func checkGroupName(c *validate.Check, g *api.InstanceGroup) {
	if g.Name != "" && (len(g.Name) > groupMax || !resourceName.MatchString(g.Name)) {
		c.Bad("metadata.name", g.Name, "cannot begin the names of machines on GCE", fmt.Sprintf("use at most %d lower-case letters, digits and dashes; begin with a letter", groupMax))
	}
}

// checkGroupZones checks that the zones are in the cluster's region, and that groups with etcd disks or
// behind the API's load balancer have only one.
func checkGroupZones(c *validate.Check, g *api.InstanceGroup) {
	const path = "spec.zones"
	c.Need(len(g.Spec.Zones) > 0, path, "list the zones of the group's machines")
	c.Unique(path, g.Spec.Zones)
	region := ""
	c.EachSubnet(func(_ string, s *api.ClusterSubnetSpec) {
		if region == "" {
			region = s.Region
		}
	})
	for i, z := range g.Spec.Zones {
		switch f := c.Facts; {
		case region != "" && RegionOf(z) != region:
			c.Bad(validate.At(path, i), z, "is not a zone of "+region+", where the cluster's subnets are", "use zones of that region")
		case len(f.Zones) > 0 && f.Region == RegionOf(z) && !slices.Contains(f.Zones, z):
			c.Bad(validate.At(path, i), z, "is not a zone of "+f.Region+" that can be used", "use one of "+strings.Join(f.Zones, ", "))
		}
	}
	several := strings.Join(g.Spec.Zones, ",")
	switch {
	case len(zonesOf(g)) < 2:
	case g.IsControlPlane():
		c.Bad(path, several, "each disk of etcd is in one zone", "keep one zone, and create a group for each of the others")
	case g.Spec.Role == api.RoleAPIServer && c.Spec.API.LoadBalancer != nil:
		c.Bad(path, several, "a group behind the API's load balancer must be in one zone", "keep one zone, and create a group for each of the others")
	}
}

func checkGroupSubnet(c *validate.Check, g *api.InstanceGroup) {
	if len(g.Spec.Subnets) > 1 {
		c.Bad("spec.subnets", strings.Join(g.Spec.Subnets, ","), "the machines of a group must be in one subnet", "keep only one")
	}
}

// checkImage checks the image's name, and that machines created from it can boot and join.
func checkImage(c *validate.Check, g *api.InstanceGroup) {
	const path = "spec.image"
	name := g.Spec.Image
	if name == "" {
		return
	}
	known := ownFacts(c.Facts)
	if _, _, ok := ParseImage(name); !ok {
		c.Bad(path, name, "is not an image", "write "+imageForms)
		return
	}
	if now := known.Families[name]; now != "" {
		c.Bad(path, name, "is an image family, whose image changes from time to time", "use its current image, "+now)
		return
	}
	i := known.Images[name]
	switch {
	case i.State == "OBSOLETE" || i.State == "DELETED":
		c.Bad(path, name, "is withdrawn ("+i.State+"), so new machines cannot use it", "choose a newer image")
	case i.NoUEFI && g.Spec.Role != api.RoleBastion:
		c.Warn(path, name, "does not boot with UEFI, so its machines have no virtual TPM to prove their identity with", "choose an image that is UEFI_COMPATIBLE")
	}
	if v := g.Spec.RootVolume; v != nil && v.Size != nil && int64(*v.Size) < i.DiskSizeGB {
		c.Bad("spec.rootVolumeSize", validate.Number(*v.Size), fmt.Sprintf("is less than the %d GB of the image", i.DiskSizeGB), "raise it")
	}
}

func checkRootDisk(c *validate.Check, g *api.InstanceGroup) {
	kind := ""
	if v := g.Spec.RootVolume; v != nil {
		kind = fill.Or(v.Type, "")
	}
	checkDiskKind(c, "spec.rootVolumeType", kind)
	checkDiskType(c, "spec.rootVolumeType", kind, bootDisk, g.Spec.MachineType)
}

// checkAccelerators checks the GPUs that are attached to machines, which only the N1 series supports.
func checkAccelerators(c *validate.Check, g *api.InstanceGroup) {
	offered := ownFacts(c.Facts).Accelerators
	for i, a := range g.Spec.GuestAccelerators {
		path := validate.At("spec.guestAccelerators", i)
		c.Need(a.AcceleratorType != "", path+".acceleratorType", "name the type of GPU, such as nvidia-tesla-t4")
		if a.AcceleratorCount < 1 {
			c.Bad(path+".acceleratorCount", validate.Number(a.AcceleratorCount), "is less than 1", "set the number of GPUs of each machine")
		}
		if zones, ok := offered[a.AcceleratorType]; ok {
			lacking := slices.DeleteFunc(zonesOf(g), func(z string) bool { return slices.Contains(zones, z) })
			if len(lacking) > 0 {
				c.Bad(path+".acceleratorType", a.AcceleratorType, "is not offered in "+strings.Join(lacking, ", "), "choose another type, or zones among "+strings.Join(zones, ", "))
			}
		}
	}
	series, _, _ := strings.Cut(g.Spec.MachineType, "-")
	if len(g.Spec.GuestAccelerators) > 0 && series != "" && series != "n1" && series != "custom" {
		c.Warn("spec.guestAccelerators", "", "machines of type "+g.Spec.MachineType+" support no GPUs other than those of the type", "choose a type of the n1 series, or one that has GPUs, such as g2-standard-4, and remove it")
	}
}

// checkSpot warns of a control plane that Google may stop at any time.
func checkSpot(c *validate.Check, g *api.InstanceGroup) {
	if g.IsControlPlane() && fill.Or(g.Spec.GCPProvisioningModel, "") == "SPOT" {
		c.Warn("spec.gcpProvisioningModel", "SPOT", "lets Google stop the machine at any time, but etcd needs a majority of its members", "use spot machines for nodes only")
	}
}
