// Package asks defines what a look-up queries from a cloud, because a spec or a user names it, and
// how missing objects are reported.
//
// It must not know any cloud, nor how one is queried.
package asks

import (
	"slices"
	"strings"

	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
)

// Reference is one thing to look up, and who needs it, for the message if it does not exist.
type Reference struct {
	Name   string
	Object string // "InstanceGroup/nodes"
	Path   string // "spec.image", as in v1alpha2
	Zones  []string
}

// Add appends an ask unless its name is empty.
func Add(list []Reference, a Reference) []Reference {
	if a.Name == "" {
		return list
	}
	return append(list, a)
}

// Names returns the names of asks, sorted and without duplicates.
func Names(list []Reference) []string {
	var out []string
	for _, a := range list {
		out = append(out, a.Name)
	}
	return Distinct(out...)
}

// Distinct returns the non-empty texts, sorted and without duplicates.
func Distinct(texts ...string) []string {
	out := slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "" })
	slices.Sort(out)
	return slices.Compact(out)
}

// Missing reports the asks whose name was not found, for each object that needs it.
func Missing(list []Reference, found func(name string) bool, rule, what, remedy string) diag.List {
	var out diag.List
	for _, a := range list {
		if a.Name != "" && !found(a.Name) {
			out = append(out, diag.Finding{Object: a.Object, Path: a.Path, Value: a.Name, Rule: rule, Message: what, Remedy: remedy})
		}
	}
	return out
}

// Has returns a function that reports whether a name is a key of a map.
func Has[T any](m map[string]T) func(name string) bool {
	return func(name string) bool { _, ok := m[name]; return ok }
}

// NotOffered reports machine types that are not offered in a zone of the object that needs them.
// other says what to do instead, followed by the zones that offer the type: "choose another type,
// or zones among ".
func NotOffered(list []Reference, types map[string]facts.MachineType, other string) diag.List {
	var out diag.List
	for _, a := range list {
		t, ok := types[a.Name]
		if !ok || t.OfferedIn(a.Zones) {
			continue
		}
		lacking := slices.DeleteFunc(slices.Clone(a.Zones), func(z string) bool { return slices.Contains(t.Zones, z) })
		out = append(out, diag.Finding{Object: a.Object, Path: a.Path, Value: a.Name, Rule: "machine-type-offered",
			Message: "the machine type is not available in " + strings.Join(lacking, ", "), Remedy: other + strings.Join(t.Zones, ", ")})
	}
	return out
}
