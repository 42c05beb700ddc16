package model

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/model/addons"
)

// inBundle rejects what machines that fetch from a bundle would lack: files with unknown digests, as it
// reports the digests of all that it has; images of the pod network, without which no node becomes
// ready; and images of add-ons, whose pods would wait for ever.
func (in Input) inBundle(unhashed []download.File) error {
	folder := in.cloudFacts().Bundle
	if folder == "" {
		return nil
	}
	lacks := func(what string, names []string, remedy string) error {
		return fault.Wrap(fault.Permanent, fmt.Errorf("the bundle %s lacks %s: %s", folder, what, strings.Join(names, ", ")), "kops bundle create "+remedy)
	}
	version := "--kubernetes-version " + in.spec().KubernetesVersion
	if len(unhashed) > 0 {
		return lacks("files that machines fetch", []string{places(unhashed)}, version)
	}
	m, err := in.missingImages()
	switch {
	case err != nil:
		return err
	case len(m.network) > 0 && m.networkOption != "":
		return lacks("images of the pod network", m.network, version+" --networking "+m.networkOption)
	case len(m.network) > 0:
		return lacks("images of the pod network", m.network, "--name "+in.Cluster.Name)
	case len(m.addons) > 0:
		return lacks("images of add-ons", m.addons, version+" --addons "+strings.Join(m.addonOptions, ","))
	case len(m.others) > 0:
		return lacks("images of add-ons", m.others, "--name "+in.Cluster.Name)
	}
	return nil
}

// missing are the public names of images that a bundle lacks, and the values of --networking and --addons
// of `kops bundle create` that add them. networkOption is empty if the images of the network cannot be built.
// others are images of add-ons that cannot be built.
type missing struct {
	network, addons, others []string
	networkOption           string
	addonOptions            []string
}

// missingImages lists the images that the bundle lacks.
func (in Input) missingImages() (m missing, err error) {
	a, err := in.builtAddons()
	if err != nil {
		return m, err
	}
	for _, f := range a.Files {
		isNetwork := strings.HasPrefix(f.Name, "networking.") && in.spec().Networking.Kubenet == nil // whose agent is kops' own
		isUsers := f.Bundle.Addon != "" && f.Bundle.Set == ""                                        // no setting adds it, so it is the user's own concern
		for _, i := range f.Images {
			if _, ok := in.Facts.ImageDigest(i.Public); ok {
				continue
			}
			switch {
			case isNetwork:
				m.network, m.networkOption = append(m.network, i.Public), f.Bundle.Network
			case isUsers:
			case f.Bundle.Addon != "":
				m.addons, m.addonOptions = append(m.addons, i.Public), append(m.addonOptions, f.Bundle.Addon)
			default:
				m.others = append(m.others, i.Public)
			}
		}
	}
	for _, list := range []*[]string{&m.network, &m.addons, &m.others, &m.addonOptions} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return m, nil
}

// builtAddons returns the add-ons, which are built only once for a shared input.
func (in Input) builtAddons() (*addons.Result, error) {
	if in.shared != nil {
		return in.shared.addons, nil
	}
	a, err := addons.Build(in.forAddons())
	if err != nil {
		return nil, fmt.Errorf("model the add-ons: %w", err)
	}
	return a, nil
}
