package bundle

import "kops.local/kops/internal/contract/download"

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
