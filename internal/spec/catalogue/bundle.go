package catalogue

import (
	"errors"
	"maps"
	"slices"
)

// Bundle specifies how a bundle gets the images of an add-on. They are built, and only on request.
type Bundle struct {
	// Addon is the add-on's name for `kops bundle create --addons` and `make bundle ADDONS=…`; Network
	// is the name of a pod network for --networking and NETWORK=…. Without either, the images cannot
	// be built.
	Addon   string `json:"addon"`
	Network string `json:"network"`
	// Set is the setting with which a cluster has the add-on, or all images of the pod network, as
	// PATH=VALUE in v1alpha2.
	Set string `json:"set"`
	// Images are the images of an add-on that users apply themselves, because no setting adds it.
	Images []string `json:"images"`
}

// check rejects what no bundle could use.
func (b Bundle) check() error {
	hasImages := b.Set != "" || len(b.Images) > 0
	switch {
	case b.Addon != "" && b.Network != "":
		return errors.New("bundle: it is either an add-on or a pod network")
	case b.Addon != "" && !hasImages:
		return errors.New("bundle: the add-on needs set or images")
	case b.Addon == "" && (len(b.Images) > 0 || b.Set != "" && b.Network == ""):
		return errors.New("bundle: set and images need the name of an add-on, and set may have the name of a network")
	}
	return nil
}

// OnRequest returns the add-ons whose images a bundle has only on request, by their names in requests.
func (c *Catalogue) OnRequest() map[string]*Addon {
	out := map[string]*Addon{}
	for _, a := range c.addons {
		if a.Bundle.Addon != "" {
			out[a.Bundle.Addon] = a
		}
	}
	return out
}

// OnRequestNames lists the names of these add-ons, sorted.
func (c *Catalogue) OnRequestNames() []string { return slices.Sorted(maps.Keys(c.OnRequest())) }

// ForNetwork returns the add-on of the pod network with this name in requests, or nil if its images are not
// built on request.
func (c *Catalogue) ForNetwork(name string) *Addon {
	for _, a := range c.addons {
		if name != "" && a.Bundle.Network == name {
			return a
		}
	}
	return nil
}

// Settings lists the settings with which a cluster has the add-on and those that it always requires,
// as PATH=VALUE.
func (a *Addon) Settings() []string {
	var out []string
	if a.Bundle.Set != "" {
		out = append(out, a.Bundle.Set)
	}
	for _, n := range a.Requires {
		if n.addon != nil && n.always {
			out = append(out, n.addon.Settings()...)
		}
	}
	return out
}
