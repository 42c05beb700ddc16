package lookup

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/spec"
	"kops.local/kops/internal/spec/asks"
	"kops.local/kops/internal/spec/facts"
)

// image reads an image or, if it does not exist, the newest image of the family with that name. A
// malformed name is not looked up: validation reports it.
func (a *resolver) image(ctx context.Context, text string) error {
	project, name, ok := spec.ParseImage(text)
	if !ok {
		a.recordImage(text, text, &compute.Image{})
		return nil
	}
	if project == "" {
		project = a.project
	}
	i, err := gceapi.Result(a.Compute.Images.Get(project, name).Context(ctx).Do())
	if err == nil {
		a.recordImage(text, text, i)
		return nil
	}
	if isNotFound(err) {
		i, err = gceapi.Result(a.Compute.Images.GetFromFamily(project, name).Context(ctx).Do())
	}
	switch {
	case isNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("describe image %s: %w", text, err)
	}
	a.recordImage(text, project+"/"+i.Name, i)
	return nil
}

// recordImage records the properties of an image under the name in the spec, and its current name.
func (a *resolver) recordImage(text, now string, i *compute.Image) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if now != text {
		a.own.Families[text] = now
	}
	kept := spec.Image{DiskSizeGB: i.DiskSizeGb}
	if i.Deprecated != nil {
		kept.State = i.Deprecated.State
	}
	kept.NoUEFI = i.Name != "" && !slices.ContainsFunc(i.GuestOsFeatures, func(f *compute.GuestOsFeature) bool { return f.Type == "UEFI_COMPATIBLE" })
	for _, name := range asks.Distinct(text, now) {
		a.facts.Images[name] = facts.Image{ID: spec.ImageURL(now, a.project), Architecture: architecture(i.Architecture)}
		a.own.Images[name] = kept
	}
}

// architecture converts an architecture to the facts' form; Google's older images have none, and
// are x86.
func architecture(s string) string {
	if s == "ARM64" {
		return facts.ArchARM
	}
	return facts.ArchX86
}

// nameFilter returns the list filter for some names.
func nameFilter(names []string) string {
	var terms []string
	for _, n := range names {
		terms = append(terms, fmt.Sprintf("(name = %q)", n))
	}
	return strings.Join(terms, " OR ")
}

// custom matches custom machine types: the number of CPUs, or a shared-core size with two, and the
// memory in MiB (Compute Engine, "Create a VM with a custom machine type").
var custom = regexp.MustCompile(`^(?:[a-z0-9]+-)?custom-(?:micro|small|medium|(\d+))-(\d+)(?:-ext)?$`)

// customType parses a custom machine type, which is not in any list.
func customType(name string) (facts.MachineType, bool) {
	m := custom.FindStringSubmatch(name)
	if m == nil {
		return facts.MachineType{}, false
	}
	t := facts.MachineType{VCPU: 2, Architectures: []string{facts.ArchX86}}
	if n, err := strconv.Atoi(m[1]); err == nil {
		t.VCPU = n
	}
	memory, err := strconv.Atoi(m[2])
	t.MemoryMiB = memory
	return t, err == nil
}

// machineTypes reads machine types and where they are offered, for all zones at once.
func (a *resolver) machineTypes(ctx context.Context) error {
	own := map[string]facts.MachineType{}
	wanted := slices.DeleteFunc(asks.Distinct(append(asks.Names(a.query.MachineTypes), a.query.Candidates...)...), func(name string) bool {
		t, ok := customType(name)
		if ok {
			own[name] = t
		}
		return ok
	})
	found, err := a.readTypes(ctx, wanted)
	maps.Copy(own, found)
	a.facts.MachineTypes = own
	return err
}

// readTypes reads types that Google lists, and leaves out those that it does not.
func (a *resolver) readTypes(ctx context.Context, wanted []string) (map[string]facts.MachineType, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	key := "machine types/" + a.project + "/" + a.facts.Region + "/" + strings.Join(wanted, ",")
	if known, ok := past.Recall[map[string]facts.MachineType](a.past, key); ok {
		return known, nil
	}
	found := map[string]facts.MachineType{}
	err := a.Compute.MachineTypes.AggregatedList(a.project).Filter(nameFilter(wanted)).Pages(ctx, func(page *compute.MachineTypeAggregatedList) error {
		for _, scope := range page.Items {
			for _, t := range scope.MachineTypes {
				if spec.RegionOf(t.Zone) != a.facts.Region {
					continue
				}
				kept := machineType(t)
				kept.Zones = asks.Distinct(append(found[t.Name].Zones, t.Zone)...)
				found[t.Name] = kept
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("describe machine types: %w", gceapi.PlainError(err))
	}
	if len(found) == len(wanted) {
		past.Remember(a.past, key, found)
	}
	return found, nil
}

func machineType(t *compute.MachineType) facts.MachineType {
	return facts.MachineType{VCPU: int(t.GuestCpus), MemoryMiB: int(t.MemoryMb), Architectures: []string{architecture(t.Architecture)},
		GPU: slices.ContainsFunc(t.Accelerators, func(g *compute.MachineTypeAccelerators) bool {
			return strings.HasPrefix(g.GuestAcceleratorType, "nvidia-")
		})}
}

// accelerators reads GPU types and where they are offered.
func (a *resolver) accelerators(ctx context.Context) error {
	found := map[string][]string{}
	err := a.Compute.AcceleratorTypes.AggregatedList(a.project).Filter(nameFilter(asks.Names(a.query.Accelerators))).Pages(ctx, func(page *compute.AcceleratorTypeAggregatedList) error {
		for _, scope := range page.Items {
			for _, t := range scope.AcceleratorTypes {
				if zone := gceapi.Name(t.Zone); spec.RegionOf(zone) == a.facts.Region {
					found[t.Name] = asks.Distinct(append(found[t.Name], zone)...)
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("describe types of GPUs: %w", gceapi.PlainError(err))
	}
	a.own.Accelerators = found
	return nil
}
