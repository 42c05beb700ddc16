package spec

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/validate"
)

func groupName(c *validate.Check, g *api.InstanceGroup) {
	if g.Name != "" && (len(g.Name) > groupMax || !resourceName.MatchString(g.Name)) {
		c.Bad("metadata.name", g.Name, "begins no name of Google's machines", fmt.Sprintf("use at most %d lower-case letters, digits and dashes; begin with a letter", groupMax))
	}
}

// groupZones checks that the zones are of the cluster's region. A disk of etcd is in one
// zone, and so is each machine behind the API's load balancer.
func groupZones(c *validate.Check, g *api.InstanceGroup) {
	const path = "spec.zones"
	c.Need(len(g.Spec.Zones) > 0, path, "name the zones in which the machines stand")
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
			c.Bad(validate.At(path, i), z, "is not a zone of "+region+", where the cluster's subnets are", "name zones of that region")
		case len(f.Zones) > 0 && f.Region == RegionOf(z) && !slices.Contains(f.Zones, z):
			c.Bad(validate.At(path, i), z, "is not a zone of "+f.Region+" that can be used", "use one of "+strings.Join(f.Zones, ", "))
		}
	}
	several := strings.Join(g.Spec.Zones, ",")
	switch {
	case len(zonesOf(g)) < 2:
	case g.IsControlPlane():
		c.Bad(path, several, "the disks of etcd are in one zone each", "leave one zone, and make a group for each of the others")
	case g.Spec.Role == api.RoleAPIServer && c.Spec.API.LoadBalancer != nil:
		c.Bad(path, several, "a group behind the API's load balancer is in one zone", "leave one zone, and make a group for each of the others")
	}
}

func groupSubnet(c *validate.Check, g *api.InstanceGroup) {
	if len(g.Spec.Subnets) > 1 {
		c.Bad("spec.subnets", strings.Join(g.Spec.Subnets, ","), "the machines of a group stand in one subnet", "name one")
	}
}

// image checks how the image is named, and that machines made of it start and join.
func image(c *validate.Check, g *api.InstanceGroup) {
	const path = "spec.image"
	name := g.Spec.Image
	if name == "" {
		return
	}
	known := own(c.Facts)
	if _, _, ok := ParseImage(name); !ok {
		c.Bad(path, name, "is not an image", "write "+imageForms)
		return
	}
	if now := known.Families[name]; now != "" {
		c.Bad(path, name, "is a family, whose image is another from time to time", "write the image that it has now, "+now)
		return
	}
	i := known.Images[name]
	switch {
	case i.State == "OBSOLETE" || i.State == "DELETED":
		c.Bad(path, name, "is withdrawn ("+i.State+"), so new machines cannot use it", "choose a newer image")
	case i.NoUEFI && g.Spec.Role != api.RoleBastion:
		c.Warn(path, name, "does not start with UEFI, so that its machines have no virtual TPM, with which they would prove who they are", "choose an image that is UEFI_COMPATIBLE")
	}
	if v := g.Spec.RootVolume; v != nil && v.Size != nil && int64(*v.Size) < i.DiskSizeGB {
		c.Bad("spec.rootVolumeSize", validate.Number(*v.Size), fmt.Sprintf("is less than the %d GB of the image", i.DiskSizeGB), "raise it")
	}
}

func rootDisk(c *validate.Check, g *api.InstanceGroup) {
	kind := ""
	if v := g.Spec.RootVolume; v != nil {
		kind = text(v.Type)
	}
	diskType(c, "spec.rootVolumeType", kind)
	fits(c, "spec.rootVolumeType", kind, bootDisk, g.Spec.MachineType)
}

// accelerators checks the GPUs that are added to machines, which only machines of the first series
// take.
func accelerators(c *validate.Check, g *api.InstanceGroup) {
	offered := own(c.Facts).Accelerators
	for i, a := range g.Spec.GuestAccelerators {
		path := validate.At("spec.guestAccelerators", i)
		c.Need(a.AcceleratorType != "", path+".acceleratorType", "name the type of GPU, such as nvidia-tesla-t4")
		if a.AcceleratorCount < 1 {
			c.Bad(path+".acceleratorCount", validate.Number(a.AcceleratorCount), "is less than 1", "write how many a machine has")
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
		c.Warn("spec.guestAccelerators", "", "machines of type "+g.Spec.MachineType+" support no GPUs besides those of their type", "choose a type of the series n1, or one that has GPUs, such as g2-standard-4, and remove it")
	}
}

// spot warns of a control plane that Google may end at any time.
func spot(c *validate.Check, g *api.InstanceGroup) {
	if g.IsControlPlane() && text(g.Spec.GCPProvisioningModel) == "SPOT" {
		c.Warn("spec.gcpProvisioningModel", "SPOT", "lets Google end the machine at any time, and etcd needs more than half of its members", "keep spot machines to nodes")
	}
}
