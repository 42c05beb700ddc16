package lookup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/spec"
	"kops.local/kops/internal/spec/facts"
)

// image asks for an image, and where there is none for the newest of a family of that name.
// Of a name that has no form of either nothing is asked: validation says what is wrong with it.
func (a *asker) image(ctx context.Context, text string) error {
	project, name, ok := spec.ParseImage(text)
	if !ok {
		a.keepImage(text, text, &compute.Image{})
		return nil
	}
	if project == "" {
		project = a.project
	}
	i, err := gceapi.Got(a.Compute.Images.Get(project, name).Context(ctx).Do())
	if err == nil {
		a.keepImage(text, text, i)
		return nil
	}
	if gone(err) {
		i, err = gceapi.Got(a.Compute.Images.GetFromFamily(project, name).Context(ctx).Do())
	}
	switch {
	case gone(err):
		return nil
	case err != nil:
		return fmt.Errorf("describe image %s: %w", text, err)
	}
	a.keepImage(text, project+"/"+i.Name, i)
	return nil
}

// keepImage notes what an image is, as a spec writes it, and of which name it is now.
func (a *asker) keepImage(text, now string, i *compute.Image) {
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
	for _, name := range distinct(text, now) {
		a.got.Images[name] = facts.Image{ID: spec.ImageURL(now, a.project), Architecture: architecture(i.Architecture)}
		a.own.Images[name] = kept
	}
}

// architecture is one as facts have it; Google's images from before there were two have none.
func architecture(s string) string {
	if s == "ARM64" {
		return facts.ArchARM
	}
	return facts.ArchX86
}

// named is the filter of lists for some names.
func named(names []string) string {
	var terms []string
	for _, n := range names {
		terms = append(terms, fmt.Sprintf("(name = %q)", n))
	}
	return strings.Join(terms, " OR ")
}

// machineTypes asks for types and for where they are offered, of all zones at once.
func (a *asker) machineTypes(ctx context.Context) error {
	wanted := distinct(append(names(a.query.MachineTypes), a.query.Candidates...)...)
	key := "machine types/" + a.project + "/" + a.got.Region + "/" + strings.Join(wanted, ",")
	if known, ok := past.Recall[map[string]facts.MachineType](a.past, key); ok {
		a.got.MachineTypes = known
		return nil
	}
	found := map[string]facts.MachineType{}
	err := a.Compute.MachineTypes.AggregatedList(a.project).Filter(named(wanted)).Pages(ctx, func(page *compute.MachineTypeAggregatedList) error {
		for _, scope := range page.Items {
			for _, t := range scope.MachineTypes {
				if spec.RegionOf(t.Zone) != a.got.Region {
					continue
				}
				zones := found[t.Name].Zones
				found[t.Name] = machineType(t)
				keep := found[t.Name]
				keep.Zones = distinct(append(zones, t.Zone)...)
				found[t.Name] = keep
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("describe machine types: %w", gceapi.Bare(err))
	}
	a.got.MachineTypes = found
	if len(found) == len(wanted) {
		past.Remember(a.past, key, found)
	}
	return nil
}

func machineType(t *compute.MachineType) facts.MachineType {
	return facts.MachineType{VCPU: int(t.GuestCpus), MemoryMiB: int(t.MemoryMb), Architectures: []string{architecture(t.Architecture)},
		GPU: slices.ContainsFunc(t.Accelerators, func(g *compute.MachineTypeAccelerators) bool {
			return strings.HasPrefix(g.GuestAcceleratorType, "nvidia-")
		})}
}

// accelerators asks for types of GPUs and for where they are offered.
func (a *asker) accelerators(ctx context.Context) error {
	found := map[string][]string{}
	err := a.Compute.AcceleratorTypes.AggregatedList(a.project).Filter(named(names(a.query.Accelerators))).Pages(ctx, func(page *compute.AcceleratorTypeAggregatedList) error {
		for _, scope := range page.Items {
			for _, t := range scope.AcceleratorTypes {
				if zone := gceapi.Name(t.Zone); spec.RegionOf(zone) == a.got.Region {
					found[t.Name] = distinct(append(found[t.Name], zone)...)
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("describe types of GPUs: %w", gceapi.Bare(err))
	}
	a.own.Accelerators = found
	return nil
}
