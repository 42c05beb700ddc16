package complete

import (
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/facts"
)

// Architectures as channels and Go spell them.
const (
	amd64 = "amd64"
	arm64 = "arm64"
)

// MachineArch returns the architecture of a machine type, amd64 or arm64: amd64 if the type is not
// known.
func MachineArch(f *facts.Cloud, machineType string) string {
	t, ok := f.MachineType(firstType(machineType))
	if ok && !t.Supports(facts.ArchX86) && t.Supports(facts.ArchARM) {
		return arm64
	}
	return amd64
}

// defaultMachineType returns the machine type of a new group: the first of the role's usual types
// that runs the group's image and that all zones offer; without facts the first that runs it. ok is
// false if there is none.
func (p *Pass) defaultMachineType(g *api.InstanceGroup) (string, bool) {
	i, _ := p.Facts.Image(g.Spec.Image)
	arm, zones := i.Architecture == facts.ArchARM, p.groupZones(g)
	for _, t := range p.platform.Machines.Types[g.Spec.Role] {
		known, ok := p.Facts.MachineType(t.Name)
		if t.ARM == arm && (len(p.Facts.MachineTypes) == 0 || ok && known.OfferedIn(zones)) {
			return t.Name, true
		}
	}
	return "", false
}

// firstType returns the first of a comma-separated list of machine types.
func firstType(list string) string {
	first, _, _ := strings.Cut(list, ",")
	return first
}
