package stage

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/spec"
	"kops.local/kops/internal/platform/rehearsal"
)

// ownTrust is where Debian keeps local authorities.
const ownTrust = "/usr/local/share/ca-certificates/kops-rehearsal.crt"

// udevFile makes systemd create the folders of udev, which runs on each machine of a
// cloud, but not in a container. Pods of CSI drivers mount them.
const (
	udevFile    = "/usr/lib/tmpfiles.d/kops-rehearsal.conf"
	udevFolders = "d /etc/udev 0755\nd /run/udev 0755\n"
)

// machines creates the rehearsal's machines on this host.
type machines struct{ *Stage }

func (m machines) Launch(ctx context.Context, x rehearsal.Machine) error {
	var shows []machine.Folder
	for _, path := range slices.Sorted(maps.Keys(x.Shows)) {
		shows = append(shows, machine.Folder{Host: x.Shows[path], Path: path})
	}
	err := m.host.Create(ctx, machine.Spec{Name: x.Name, Image: m.image, Address: x.Address, Gateway: x.Gateway, Resolver: m.address,
		MinDiskGiB: spec.CiliumDisk, // the pod network with the largest image
		MemoryMiB:  x.MemoryMiB, UserData: x.UserData, Folders: shows, Files: map[string][]byte{trustFile: m.machineTrust, ownTrust: m.trust.pem, udevFile: []byte(udevFolders)}}, m.Now())
	if err == nil {
		m.Log.Info("a machine starts", "machine", x.Name, "address", x.Address.Addr())
	}
	return err
}

func (m machines) List() (map[string]bool, error) {
	all, err := m.host.List()
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, x := range all {
		out[x.Name] = x.Running
	}
	return out, nil
}

func (m machines) Destroy(ctx context.Context, name string) error {
	existing, err := m.List()
	if err != nil {
		return err
	}
	if _, ok := existing[name]; !ok {
		return nil
	}
	if err := m.host.Delete(ctx, name); err != nil {
		return err
	}
	m.Log.Info("a machine has ended", "machine", name)
	return nil
}

func (m machines) Console(name string) ([]byte, error) { return m.host.Log(name) }

// hostPrefix returns an address as a prefix of its full length.
func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
