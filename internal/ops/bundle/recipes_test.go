package bundle_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/platform/providers"
	"kops.local/kops/internal/spec/catalogue"
)

// TestEveryFileAndImageOfALocalClusterCanBePacked keeps the recipes in sync with what clusters
// fetch.
func TestEveryFileAndImageOfALocalClusterCanBePacked(t *testing.T) {
	for _, kubernetes := range []string{"1.35.4", "1.36.3"} {
		w, err := bundle.ForDefault(providers.Of("local"), bundle.Default{Kops: "1.37.0", Kubernetes: kubernetes, Addons: bundle.Addons()}, download.Arches())
		if err != nil {
			t.Fatal(err)
		}
		if w.Kubernetes != kubernetes || len(w.Files) < 14 || len(w.Images) < 21 {
			t.Errorf("%s: %d files and %d images", w.Kubernetes, len(w.Files), len(w.Images))
		}
		arches := map[download.Arch]int{}
		for u := range w.Files {
			version, arch, ok := bundle.FileRecipeFor(u)
			if !ok || version == "" {
				t.Errorf("there is no recipe for %s", u)
			}
			arches[arch]++
		}
		if arches[download.AMD64] != arches[download.ARM64] || len(arches) != 2 {
			t.Errorf("files by architecture: %v", arches)
		}
		for _, i := range w.Images {
			if tag, ok := bundle.ImageRecipeFor(i); !ok || tag == "" {
				t.Errorf("there is no recipe for %s", i)
			}
		}
	}
}

// podNetworks lists the pod networks that a bundle has on request.
func podNetworks() []string {
	var out []string
	for _, a := range (*catalogue.Catalogue)(nil).Or().Addons() {
		if a.Bundle.Network != "" {
			out = append(out, a.Bundle.Network)
		}
	}
	slices.Sort(out)
	return out
}

// TestWhatBundlesHaveOnRequestCanBePackedAndBuilt: the catalogue says what it is, the recipes how it is
// packed, and tools/kubernetes, which is a module of its own, how its programs are built.
func TestWhatBundlesHaveOnRequestCanBePackedAndBuilt(t *testing.T) {
	addons, networks := bundle.OnRequestRecipes()
	if !slices.Equal(addons, bundle.Addons()) || len(addons) == 0 {
		t.Errorf("add-ons: the catalogue has %v, the recipes have %v", bundle.Addons(), addons)
	}
	if !slices.Equal(networks, podNetworks()) || len(networks) == 0 {
		t.Errorf("pod networks: the catalogue has %v, the recipes have %v", podNetworks(), networks)
	}
	for file, names := range map[string][]string{"addons.go": addons, "networks.go": networks} {
		text, err := os.ReadFile("../../../tools/kubernetes/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if !strings.Contains(string(text), strconv.Quote(n)+": ") {
				t.Errorf("tools/kubernetes/%s does not build %s", file, n)
			}
		}
	}
}

func TestEveryImageOfABuildablePodNetworkCanBePacked(t *testing.T) {
	for _, network := range podNetworks() {
		w, err := bundle.ForDefault(providers.Of("local"), bundle.Default{Kops: "1.37.0", Networking: network}, download.Arches())
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, i := range w.Images {
			tag, ok := bundle.ImageRecipeFor(i)
			if !ok || tag == "" {
				t.Errorf("%s: there is no recipe for %s", network, i)
			}
			found = found || strings.Contains(i, network)
		}
		if !found {
			t.Errorf("%s: the images are %v", network, w.Images)
		}
	}
}
