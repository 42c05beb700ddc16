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

// image asks for an image, and where there is none for the newest of a family of that name.
// A name in neither form is not looked up: validation reports it.
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
	for _, name := range asks.Distinct(text, now) {
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

// custom is a machine type of the user's own measure: its processors, or the size of a part
// of two, and its memory in MiB (Compute Engine, "Create a VM with a custom machine type").
var custom = regexp.MustCompile(`^(?:[a-z0-9]+-)?custom-(?:micro|small|medium|(\d+))-(\d+)(?:-ext)?$`)

// customType is a machine type of the user's own measure, which no list has.
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

// machineTypes asks for types and for where they are offered, of all zones at once.
func (a *asker) machineTypes(ctx context.Context) error {
	own := map[string]facts.MachineType{}
	wanted := slices.DeleteFunc(asks.Distinct(append(asks.Names(a.query.MachineTypes), a.query.Candidates...)...), func(name string) bool {
		t, ok := customType(name)
		if ok {
			own[name] = t
		}
		return ok
	})
	found, err := a.listedTypes(ctx, wanted)
	maps.Copy(own, found)
	a.got.MachineTypes = own
	return err
}

// listedTypes asks for types that Google lists; of those that it does not it is silent.
func (a *asker) listedTypes(ctx context.Context, wanted []string) (map[string]facts.MachineType, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	key := "machine types/" + a.project + "/" + a.got.Region + "/" + strings.Join(wanted, ",")
	if known, ok := past.Recall[map[string]facts.MachineType](a.past, key); ok {
		return known, nil
	}
	found := map[string]facts.MachineType{}
	err := a.Compute.MachineTypes.AggregatedList(a.project).Filter(named(wanted)).Pages(ctx, func(page *compute.MachineTypeAggregatedList) error {
		for _, scope := range page.Items {
			for _, t := range scope.MachineTypes {
				if spec.RegionOf(t.Zone) != a.got.Region {
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
		return nil, fmt.Errorf("describe machine types: %w", gceapi.Bare(err))
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

// accelerators asks for types of GPUs and for where they are offered.
func (a *asker) accelerators(ctx context.Context) error {
	found := map[string][]string{}
	err := a.Compute.AcceleratorTypes.AggregatedList(a.project).Filter(named(asks.Names(a.query.Accelerators))).Pages(ctx, func(page *compute.AcceleratorTypeAggregatedList) error {
		for _, scope := range page.Items {
			for _, t := range scope.AcceleratorTypes {
				if zone := gceapi.Name(t.Zone); spec.RegionOf(zone) == a.got.Region {
					found[t.Name] = asks.Distinct(append(found[t.Name], zone)...)
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
