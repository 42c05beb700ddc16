package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/gce/emulator"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/vtpm/softtpm"
	"kops.local/kops/internal/platform/rehearsal"
)

// desiredState records the machines that the emulator wants, and the play creates them later, because the
// emulator is blocked while it calls.
type desiredState struct {
	stage    rehearsal.Stage
	onChange func()

	mu   sync.Mutex
	want map[string]emulator.Instance // by name
	keys map[uint64]string            // the attestation keys of instances, by ID
}

var _ emulator.Machines = (*desiredState)(nil)

func (w *desiredState) update(change func()) error {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	w.onChange()
	return nil
}

// Start records that a machine is wanted.
func (w *desiredState) Start(_ context.Context, i emulator.Instance) error {
	return w.update(func() { w.want[i.Name] = i })
}

// Plug records that a machine's disks have changed.
func (w *desiredState) Plug(ctx context.Context, i emulator.Instance) error { return w.Start(ctx, i) }

// Stop removes a machine. When the instance starts again, it gets a new boot disk, because the old
// one was removed with the machine.
func (w *desiredState) Stop(ctx context.Context, i emulator.Instance) error { return w.Delete(ctx, i) }

// Delete records that a machine is no longer wanted.
func (w *desiredState) Delete(_ context.Context, i emulator.Instance) error {
	return w.update(func() {
		if w.want[i.Name].ID == i.ID {
			delete(w.want, i.Name)
		}
	})
}

// Console returns a machine's console output.
func (w *desiredState) Console(i emulator.Instance) ([]byte, error) {
	return w.stage.Machines.Console(i.Name)
}

// machines returns the machines that are currently wanted.
func (w *desiredState) machines() map[string]emulator.Instance {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.want)
}

// key returns the attestation key of an instance.
func (w *desiredState) key(i emulator.Instance) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k, ok := w.keys[i.ID]; ok {
		return k, nil
	}
	return "", fault.New(fault.NotYet, "the instance %s has not started yet", i.Name)
}

// wantedMachines returns the machines that the emulator wants, with what the API reports of them, and
// their disks apart from the boot disks.
func (p *play) wantedMachines(now snapshot, want map[string]emulator.Instance) (machines []rehearsal.WantedMachine, disks []rehearsal.Disk) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		i := want[name]
		machines = append(machines, rehearsal.WantedMachine{Name: name, ID: strconv.FormatUint(i.ID, 36), Address: i.Address, Network: i.Subnet, Public: i.External, Own: now.own[name],
			Hosts: []string{name + "." + i.Zone + internalDomain, name + internalDomain},
			Boot:  func(ctx context.Context) (rehearsal.Boot, error) { return p.boot(ctx, i) },
			Died:  func(ctx context.Context) error { return p.deleteInstance(ctx, i) }})
		for _, d := range i.Disks {
			if !d.Boot {
				disks = append(disks, rehearsal.Disk{Name: d.Name, GiB: d.GiB, Machine: name, Paths: []string{"/dev/" + d.Name, "/dev/disk/by-id/google-" + d.Device}})
			}
		}
	}
	return machines, disks
}

// Names within Google's network.
const (
	metadataName   = "metadata.google.internal"
	internalDomain = ".c." + Project + ".internal" // preceded by an instance, or an instance and its zone
)

// deleteInstance deletes an instance whose machine has died, which makes its group recreate it under the same
// name.
func (p *play) deleteInstance(ctx context.Context, i emulator.Instance) error {
	_, err := p.api.Compute.Instances.Delete(i.Project, i.Zone, i.Name).Context(ctx).Do()
	if err = gceapi.PlainError(err); err != nil && !fault.Is(err, fault.Gone) {
		return fmt.Errorf("stop the instance %s, which has died: %w", i.Name, err)
	}
	return nil
}

// boot starts the TPM of an instance, and returns what its machine boots from.
func (p *play) boot(ctx context.Context, i emulator.Instance) (rehearsal.Boot, error) {
	id := strconv.FormatUint(i.ID, 36)
	state, socket := filepath.Join(p.dir, "tpm", id), filepath.Join(p.dir, "tpm", id+".sock")
	key, err := softtpm.Prepare(ctx, state)
	if err != nil {
		return rehearsal.Boot{}, err
	}
	t, err := softtpm.Start(ctx, state, socket, rehearsal.KillWithParent)
	if err != nil {
		return rehearsal.Boot{}, err
	}
	p.desired.mu.Lock()
	p.desired.keys[i.ID] = key
	p.desired.mu.Unlock()
	p.log.Info("an instance starts", "instance", i.Name, "type", i.MachineType, "address", i.Address)
	return rehearsal.Boot{UserData: bootScript(i.Metadata), MemoryMiB: p.memory[i.MachineType], Shows: map[string]string{"/dev/tpm0": socket},
		End: func() error { return errors.Join(t.Stop(), os.RemoveAll(state)) }}, nil
}

// bootScript returns what an image runs at boot according to its metadata, in cloud-init's or Google's
// own key.
func bootScript(metadata map[string]string) string {
	if s := metadata[gcecloud.MetadataUserData]; s != "" {
		return s
	}
	return metadata[gcecloud.MetadataScript]
}
