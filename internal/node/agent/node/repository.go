package node

import (
	"slices"
	"strings"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
)

// repository is a package repository that is not part of the distribution.
type repository struct {
	// name is the name of its files, key the URL of the key that signs its index, and places the
	// rest of a line of sources.list(5).
	name, key, places string
}

// accelerators installs NVIDIA's driver and container toolkit on machines with an NVIDIA processor.
// Only Ubuntu has the driver as a package: images of other distributions must include both (NVIDIA,
// "Installing the NVIDIA Container Toolkit").
func (b *builder) accelerators() error {
	g := b.Config.NvidiaGPU
	if g == nil || !isTrue(g.Enabled) || !b.Host.NVIDIA || b.Host.Distro != "ubuntu" {
		return nil
	}
	return b.installFrom(repository{"nvidia-container-toolkit", "https://nvidia.github.io/libnvidia-container/gpgkey", "https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH) /"},
		"nvidia-container-toolkit", g.Package)
}

// sandbox installs gVisor, which is packaged only for the Debian family; other
// images must include it (gVisor, "Installation").
func (b *builder) sandbox() error {
	if g := b.Config.GVisor; g == nil || !isTrue(g.Enabled) || b.Host.Like != "debian" {
		return nil
	}
	return b.installFrom(repository{"gvisor", "https://gvisor.dev/archive.key", "https://storage.googleapis.com/gvisor/releases release main"}, "runsc")
}

// installFrom installs packages of a repository before the kubelet starts. The
// repository is added only after its key and the distribution's packages are
// installed: a package index that cannot be read or verified would block these.
func (b *builder) installFrom(r repository, packages ...string) error {
	key, err := host.NewAsset(download.Unverified + "@" + r.key) // its publisher may replace it at any time, and TLS authenticates the publisher
	if err != nil {
		return err
	}
	fetched, err := add(b, &host.Assets, key.Base(), key)
	if err != nil {
		return err
	}
	keyring, file := "/etc/apt/keyrings/"+r.name+".asc", "/etc/apt/sources.list.d/"+r.name+".list"
	installed, err := add(b, &host.Binaries, keyring, host.Binary{Path: keyring, Asset: key.File}, fetched)
	if err != nil {
		return err
	}
	text := resource.Text(resource.Lit("deb [signed-by=" + keyring + "] " + r.places + "\n"))
	list, err := add(b, &host.Files, file, host.File{Path: file, Content: text, Mode: "0644"}, append(slices.Clone(b.packages), installed)...)
	if err != nil {
		return err
	}
	set := host.PackageSet{Manager: "apt", Names: strings.Join(unique(packages), " ")}
	a, err := add(b, &host.PackageSets, r.name, set, list)
	b.node = append(b.node, a)
	return err
}
