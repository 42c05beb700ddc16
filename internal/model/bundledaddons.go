package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/model/addons"
)

// built returns, by an add-on's name, its name as an option of `kops bundle create`, for the add-ons
// whose images a bundle only has if it was told to.
func built() map[string]string {
	return map[string]string{
		"certmanager.io":                    "cert-manager",
		"metrics-server.addons.k8s.io":      "metrics-server",
		"snapshot-controller.addons.k8s.io": "snapshot-controller",
	}
}

// addonsInBundle rejects add-ons whose images a bundle lacks: their pods would wait for ever.
func (in Input) addonsInBundle(folder string) error {
	a, err := addons.Build(in.forAddons())
	if err != nil {
		return fmt.Errorf("model the add-ons: %w", err)
	}
	missing, of := map[string]bool{}, map[string]bool{}
	for _, f := range a.Files {
		name, optional := built()[f.Name]
		for _, i := range f.Images {
			if _, ok := in.Facts.ImageDigest(i.Public); !ok && optional {
				missing[i.Public], of[name] = true, true
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fault.Wrap(fault.Permanent, fmt.Errorf("the bundle %s lacks images of add-ons: %s", folder, strings.Join(slices.Sorted(maps.Keys(missing)), ", ")),
		"kops bundle create --kubernetes-version "+in.spec().KubernetesVersion+" --addons "+strings.Join(slices.Sorted(maps.Keys(of)), ","))
}
