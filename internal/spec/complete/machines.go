package complete

import (
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/names"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/versions"
)

// Architectures as channels and Go spell them.
const (
	amd64 = "amd64"
	arm64 = "arm64"
)

// defaultImage returns the machine image of a new group. Clouds with no entry in any
// channel have a fixed name for the newest Ubuntu; OpenStack has none, because
// every installation names its own.
func defaultImage(c *versions.Channel, cloud api.CloudProviderID, arch string, version semver.Version) (string, bool) {
	if image := c.Image(cloud, arch, version); image != "" {
		return image, true
	}
	image, ok := map[api.CloudProviderID]string{
		api.CloudDO:       "ubuntu-24-04-x64",
		api.CloudHetzner:  "ubuntu-24.04",
		api.CloudScaleway: "ubuntu_noble",
		api.CloudLinode:   "linode/ubuntu24.04",
		api.CloudMetal:    "dummy-metal-image",
		api.CloudLocal:    "debian-12",
	}[cloud]
	return image, ok
}

// machineArch returns the architecture of a machine type, amd64 or arm64: on AWS
// that of the type, elsewhere amd64.
func machineArch(f *facts.Facts, cloud api.CloudProviderID, machineType string) string {
	if cloud != api.CloudAWS || f == nil || f.AWS == nil {
		return amd64
	}
	t, ok := f.AWS.MachineType(firstType(machineType))
	if ok && !t.Supports(facts.ArchX86) && t.Supports(facts.ArchARM) {
		return arm64
	}
	return amd64
}

// imageArch is the architecture that the group's image must be run on; amd64 when it is not known.
func (p *pass) imageArch(g *api.InstanceGroup) string {
	if p.cloud == api.CloudAWS && p.in.Facts.AWS != nil && g.Spec.Image != "" {
		if i, ok := p.in.Facts.AWS.Image(g.Spec.Image); ok && i.Architecture == facts.ArchARM {
			return arm64
		}
	}
	return amd64
}

// defaultMachineType returns the machine type of a new group. On AWS it is the first of
// a short list that fits the architecture and that all zones offer; without facts
// the first that fits. ok is false when there is none.
func defaultMachineType(f *facts.Facts, cloud api.CloudProviderID, role api.InstanceGroupRole, arch string, zones []string) (string, bool) {
	if cloud == api.CloudAWS {
		return awsMachineType(f, role, arch, zones)
	}
	type sizes struct{ controlPlane, node, bastion string }
	s := map[api.CloudProviderID]sizes{
		api.CloudGCE:      {"e2-medium", "e2-medium", "e2-micro"},
		api.CloudDO:       {"s-2vcpu-4gb-amd", "s-2vcpu-4gb-amd", ""},
		api.CloudAzure:    {"Standard_B2s", "Standard_B2s", "Standard_B2s"},
		api.CloudHetzner:  {"cx23", "cx23", "cx23"},
		api.CloudScaleway: {"DEV1-M", "DEV1-M", ""},
		api.CloudLinode:   {"g6-standard-2", "g6-standard-2", "g6-standard-1"},
		api.CloudLocal:    {names.LocalHostSize, names.LocalHostSize, ""},
	}[cloud]
	t := s.node
	switch role {
	case api.RoleControlPlane:
		t = s.controlPlane
	case api.RoleBastion:
		t = s.bastion
	}
	return t, t != ""
}

// AWSMachineTypes are the types of which a group of a role gets the first that all
// its zones offer for the architecture of its image.
func AWSMachineTypes(role api.InstanceGroupRole) []string {
	if role == api.RoleBastion {
		return []string{"t3.micro", "t2.micro", "t4g.micro"}
	}
	return []string{"t3.medium", "c5.large", "c4.large", "t4g.medium"}
}

func awsMachineType(f *facts.Facts, role api.InstanceGroupRole, arch string, zones []string) (string, bool) {
	candidates := AWSMachineTypes(role)
	i := slices.IndexFunc(candidates, func(name string) bool {
		if strings.HasPrefix(name, "t4g.") != (arch == arm64) {
			return false
		}
		if f == nil || f.AWS == nil || len(f.AWS.MachineTypes) == 0 {
			return true
		}
		t, ok := f.AWS.MachineType(name)
		return ok && t.OfferedIn(zones)
	})
	if i < 0 {
		return "", false
	}
	return candidates[i], true
}

// firstType is the first of a list of machine types joined by commas.
func firstType(list string) string {
	first, _, _ := strings.Cut(list, ",")
	return first
}
