package peer

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
	"time"

	"kops.local/kops/internal/contract/localcloud"
	"kops.local/kops/internal/node/etcd"
)

// Machines is a folder with a file NAME.json for each machine of a cluster, such as
//
//	{"name": "control-plane-a-x1", "address": "10.77.0.11", "labels": {"role": "control-plane"}}
//
// It is read anew each time, and may be absent. All managers listen on one port.
type Machines struct {
	Dir  string
	Port string
}

// Addresses returns the addresses of the machines of the control plane, in order.
// Those of an error are of the files that could be read.
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

// readMachine returns the address of a machine of the control plane; of another, or
// of one that is gone by now, it is empty.
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

// Discover implements Discovery.
func (m Machines) Discover(context.Context) ([]etcd.Sighting, error) {
	addresses, failed := m.Addresses()
	out := make([]etcd.Sighting, len(addresses))
	for i, a := range addresses {
		out[i].Endpoint = net.JoinHostPort(a, m.Port)
	}
	return out, failed
}

// Watch reads the folder at every interval and calls changed when other machines
// are there than before, until ctx ends. A file that cannot be read now counts as
// it will be read next time.
func (m Machines) Watch(ctx context.Context, every time.Duration, changed func()) {
	before, _ := m.Addresses() // what is wrong with a file is said by Discover
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
