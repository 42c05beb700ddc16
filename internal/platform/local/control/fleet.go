package control

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/platform/local/localcloud"
)

// fleet requests replacements of machines from the host.
type fleet struct {
	Registry
	// requests is the folder of the requests, a file for each machine.
	requests string
}

var _ controller.Fleet = fleet{}

// List returns the machines of groups. A machine's age is that of its registry entry.
func (f fleet) List(context.Context) ([]controller.FleetMachine, error) {
	names, err := f.Registry.machines()
	if err != nil {
		return nil, err
	}
	var out []controller.FleetMachine
	for _, name := range names {
		e, err := f.entry(name)
		if fault.Is(err, fault.Gone) { // the machine was removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		info, err := fs.Stat(f.Folder, name+localcloud.MachineSuffix)
		if err != nil {
			return nil, fmt.Errorf("read the age of the machine %s: %w", name, err)
		}
		if e.Group != "" {
			out = append(out, controller.FleetMachine{Name: name, Node: name, Group: e.Group, Created: info.ModTime()})
		}
	}
	return out, nil
}

// Serving returns all machines: this platform keeps none in reserve.
func (fleet) Serving(_ context.Context, machines []controller.FleetMachine) ([]controller.FleetMachine, error) {
	return machines, nil
}

// Replace writes a request for the host, which handles it within a second.
func (f fleet) Replace(_ context.Context, m controller.FleetMachine) error {
	return os.WriteFile(filepath.Join(f.requests, m.Name), nil, 0o600)
}
