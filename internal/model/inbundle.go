package model

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
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
	switch option := buildableNetwork(&in.spec().Networking); {
	case err != nil:
		return err
	case len(m.network) > 0 && option != "":
		return lacks("images of the pod network", m.network, version+" --networking "+option)
	case len(m.network) > 0:
		return lacks("images of the pod network", m.network, "--name "+in.Cluster.Name)
	case len(m.addons) > 0:
		return lacks("images of add-ons", m.addons, version+" --addons "+strings.Join(m.options, ","))
	}
	return nil
}

// missing are the public names of images that a bundle lacks, and the options of `kops bundle create`
// that add those of add-ons.
type missing struct{ network, addons, options []string }

// missingImages lists the images that the bundle lacks.
func (in Input) missingImages() (m missing, err error) {
	a, err := in.builtAddons()
	if err != nil {
		return m, err
	}
	for _, f := range a.Files {
		isNetwork := strings.HasPrefix(f.Name, "networking.") && in.spec().Networking.Kubenet == nil // whose agent is kops' own
		option, isOptional := buildableAddons()[f.Name]
		for _, i := range f.Images {
			if _, ok := in.Facts.ImageDigest(i.Public); ok {
				continue
			}
			if isNetwork {
				m.network = append(m.network, i.Public)
			}
			if isOptional {
				m.addons, m.options = append(m.addons, i.Public), append(m.options, option)
			}
		}
	}
	for _, list := range []*[]string{&m.network, &m.addons, &m.options} {
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

// buildableNetwork returns the value of --networking for a pod network whose images can be built.
func buildableNetwork(n *api.NetworkingSpec) string {
	switch {
	case n.Cilium != nil:
		return "cilium"
	case n.Flannel != nil:
		return "flannel"
	case n.KubeRouter != nil:
		return "kube-router"
	}
	return ""
}

// buildableAddons returns, by an add-on's name, its name for --addons, for the add-ons whose images a
// bundle only has on request.
func buildableAddons() map[string]string {
	return map[string]string{
		"certmanager.io":                    "cert-manager",
		"metrics-server.addons.k8s.io":      "metrics-server",
		"snapshot-controller.addons.k8s.io": "snapshot-controller",
	}
}
