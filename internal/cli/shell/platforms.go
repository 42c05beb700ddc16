package shell

import (
	"slices"
	"strings"

	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/traits"
)

// Platforms are those that the program knows, the usual one first.
func (a *App) Platforms() []platform.Provider { return a.clientConfig("").Clouds }

// Traits are those of a platform; of one that is not known there are none.
func (a *App) Traits(name string) *traits.Traits {
	for _, p := range a.Platforms() {
		if string(p.Name) == name {
			return &p.Traits
		}
	}
	return &traits.Traits{}
}

// HasRegions reports whether a cluster of the platform is in a region.
func (a *App) HasRegions(name string) bool {
	return slices.ContainsFunc(a.Platforms(), func(p platform.Provider) bool { return string(p.Name) == name && p.Region != nil })
}

// Names are those of the platforms on which clusters are made.
func Names(all []platform.Provider) []string {
	var out []string
	for _, p := range all {
		if name := string(p.Name); p.Connect != nil && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// OneOf lists words of which one is chosen: "a, b or c".
func OneOf(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
	return strings.Join(words, "")
}
