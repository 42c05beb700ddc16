// Package asks defines what a look-up asks a cloud for, because a spec or a user names it, and how
// missing objects are reported.
//
// It must not know any cloud, nor how one is asked.
package asks

import (
	"slices"
	"strings"

	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
)

// Ask is one thing to ask for, and who wants it, for the message when it does not exist.
type Ask struct {
	Name   string
	Object string // "InstanceGroup/nodes"
	Path   string // "spec.image", as in v1alpha2
	Zones  []string
}

// Add appends an ask that names something.
func Add(list []Ask, a Ask) []Ask {
	if a.Name == "" {
		return list
	}
	return append(list, a)
}

// Names returns the names of asks, sorted, each once.
func Names(list []Ask) []string {
	var out []string
	for _, a := range list {
		out = append(out, a.Name)
	}
	return Distinct(out...)
}

// Distinct returns the texts that are not empty, sorted, each once.
func Distinct(texts ...string) []string {
	out := slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "" })
	slices.Sort(out)
	return slices.Compact(out)
}

// Absent reports the asks that name something which was not found, to each who asked.
func Absent(list []Ask, found func(name string) bool, rule, what, remedy string) diag.List {
	var out diag.List
	for _, a := range list {
		if a.Name != "" && !found(a.Name) {
			out = append(out, diag.Finding{Object: a.Object, Path: a.Path, Value: a.Name, Rule: rule, Message: what, Remedy: remedy})
		}
	}
	return out
}

// Has finds the names that are keys of a map.
func Has[T any](m map[string]T) func(name string) bool {
	return func(name string) bool { _, ok := m[name]; return ok }
}

// NotOffered reports machine types that a zone of who asked does not offer. other says
// what to do instead, before the zones that do: "choose another type, or zones among ".
func NotOffered(list []Ask, types map[string]facts.MachineType, other string) diag.List {
	var out diag.List
	for _, a := range list {
		t, ok := types[a.Name]
		if !ok || t.OfferedIn(a.Zones) {
			continue
		}
		lacking := slices.DeleteFunc(slices.Clone(a.Zones), func(z string) bool { return slices.Contains(t.Zones, z) })
		out = append(out, diag.Finding{Object: a.Object, Path: a.Path, Value: a.Name, Rule: "machine-type-offered",
			Message: "the machine type is not offered in " + strings.Join(lacking, ", "), Remedy: other + strings.Join(t.Zones, ", ")})
	}
	return out
}
