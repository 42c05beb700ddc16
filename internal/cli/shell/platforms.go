package shell

import (
	"slices"

	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/traits"
)

// Platforms returns the platforms that the program knows, the default first, for their traits: they
// are configured as when it was first called, before flags were parsed.
func (a *App) Platforms() []platform.Provider {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.platforms == nil {
		for _, p := range a.clientConfig("").Clouds {
			a.platforms = append(a.platforms, Inside[platform.Provider](p))
		}
	}
	return a.platforms
}

// Inside returns the internal value behind a value of the library, for display.
func Inside[T any](shown interface{ As(target any) bool }) T {
	var out T
	shown.As(&out)
	return out
}

// Traits returns the traits of a platform; an unknown platform has none.
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
	return slices.ContainsFunc(a.Platforms(), func(p platform.Provider) bool { return string(p.Name) == name && p.Lookup.Region != nil })
}

// Names returns the names of the platforms on which clusters are created.
func Names(all []platform.Provider) []string {
	var out []string
	for _, p := range all {
		if name := string(p.Name); p.Connect != nil && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
