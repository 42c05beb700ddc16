package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform/local/localcloud"
	"kops.local/kops/internal/platform/onmachine"
)

// watchPause is how often the folder of machines is polled.
const watchPause = time.Second

// volumes returns the source of volumes: folders of the host that a machine sees.
func volumes(_ onmachine.World, r volume.Request) volume.Source {
	m := Machines{Dir: r.Machines, Port: r.Port}
	return volume.Source{
		Disk: r.FolderDisk, Address: m.ownAddress, Discover: m.Discover,
		Watch: func(ctx context.Context, changed func()) { m.Watch(ctx, watchPause, changed) },
	}
}

// Machines is a folder with a file NAME.json for each machine of a cluster, such as
//
//	{"name": "control-plane-a-x1", "address": "10.77.0.11", "labels": {"role": "control-plane"}}
//
// It is read again each time, and may not exist. All managers listen on one port.
type Machines struct {
	Dir  string
	Port string
}

// Addresses returns the addresses of the control-plane machines, sorted. Along with an error it
// returns the addresses from the files that could be read.
func (m Machines) Addresses() ([]string, error) {
	entries, err := os.ReadDir(m.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the machines of the cluster: %w", err)
	}
	var out []string
	var failed error
	for _, e := range entries {
		if filepath.Ext(e.Name()) != localcloud.MachineSuffix {
			continue
		}
		address, err := readMachine(filepath.Join(m.Dir, e.Name()))
		failed = errors.Join(failed, err)
		if address != "" {
			out = append(out, address)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), failed
}

// ownAddress returns the registered address of this machine. Its interfaces do not tell, because they
// include those of its pods.
func (m Machines) ownAddress() (string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("find the address of this machine: %w", err)
	}
	known, err := m.Addresses()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && slices.Contains(known, n.IP.String()) {
			return n.IP.String(), nil
		}
	}
	err = errors.Join(fmt.Errorf("this machine has no address of the control plane in %s: %s", m.Dir, strings.Join(known, ", ")), err)
	return "", fault.Wrap(fault.NotYet, err, "register the machine, or give its address with --address")
}

// readMachine returns the address of a control-plane machine, or "" if the machine is
// another one or no longer exists.
func readMachine(path string) (address string, err error) {
	var machine localcloud.Machine
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err == nil {
		err = json.Unmarshal(text, &machine)
	}
	if err != nil {
		return "", fmt.Errorf("read the machine %s: %w", path, err)
	}
	if !machine.IsControlPlane() {
		return "", nil
	}
	return machine.Address, nil
}

// Discover implements peer.Discovery.
func (m Machines) Discover(context.Context) ([]etcd.Sighting, error) {
	addresses, failed := m.Addresses()
	out := make([]etcd.Sighting, len(addresses))
	for i, a := range addresses {
		out[i].Endpoint = net.JoinHostPort(a, m.Port)
	}
	return out, failed
}

// Watch polls the folder at the given interval and calls changed when the set of machines has
// changed, until ctx is done. A file that cannot be read now counts once it can be read.
func (m Machines) Watch(ctx context.Context, every time.Duration, changed func()) {
	before, _ := m.Addresses() // Discover reports errors in the files
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, err := m.Addresses()
		if err != nil || slices.Equal(now, before) {
			continue
		}
		before = now
		changed()
	}
}
