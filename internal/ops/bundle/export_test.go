package bundle

import (
	"slices"

	"kops.local/kops/internal/contract/download"
)

// FileRecipeFor returns the recipe for a file.
func FileRecipeFor(url string) (version string, arch download.Arch, ok bool) {
	_, version, arch, ok = fileRecipeFor(url)
	return version, arch, ok
}

// ImageRecipeFor returns the recipe for an image.
func ImageRecipeFor(image string) (tag string, ok bool) {
	_, tag, ok = imageRecipeFor(image)
	return tag, ok
}

// OnRequestRecipes lists the add-ons and the pod networks whose images can be packed on request.
func OnRequestRecipes() (addons, networks []string) {
	for _, r := range imageRecipes() {
		if r.addon != "" {
			addons = append(addons, r.addon)
		}
		if r.network != "" {
			networks = append(networks, r.network)
		}
	}
	slices.Sort(addons)
	slices.Sort(networks)
	return slices.Compact(addons), slices.Compact(networks)
}
