package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
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

// reconcileInstances makes this host's machines match the wanted ones: it removes unwanted machines, and
// reports to the emulator which machines have died.
func (p *play) reconcileInstances(ctx context.Context, want map[string]emulator.Instance) error {
	existing, err := p.stage.Machines.List()
	if err != nil {
		return err
	}
	var errs []error
	for name, runs := range existing {
		i, wanted := want[name]
		switch made := p.running[name]; {
		case !wanted || made.ID != i.ID:
			errs = append(errs, p.removeMachine(ctx, name))
			delete(existing, name)
		case !runs:
			p.log.Warn("an instance has died", "instance", name)
			errs = append(errs, p.deleteInstance(ctx, i))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if _, is := existing[name]; is {
			continue
		}
		if err := p.launch(ctx, want[name]); err != nil {
			errs = append(errs, fmt.Errorf("start the instance %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// deleteInstance deletes an instance whose machine has died, which makes its group recreate it under the same
// name.
func (p *play) deleteInstance(ctx context.Context, i emulator.Instance) error {
	_, err := p.api.Compute.Instances.Delete(i.Project, i.Zone, i.Name).Context(ctx).Do()
	if err = gceapi.PlainError(err); err != nil && !fault.Is(err, fault.Gone) {
		return fmt.Errorf("stop the instance %s, which has died: %w", i.Name, err)
	}
	return nil
}

// launch starts the machine of an instance, with its own TPM.
func (p *play) launch(ctx context.Context, i emulator.Instance) error {
	id := strconv.FormatUint(i.ID, 36)
	state, socket := filepath.Join(p.dir, "tpm", id), filepath.Join(p.dir, "tpm", id+".sock")
	key, err := softtpm.Prepare(ctx, state)
	if err != nil {
		return err
	}
	t, err := softtpm.Start(ctx, state, socket, rehearsal.KillWithParent)
	if err != nil {
		return err
	}
	p.desired.mu.Lock()
	p.desired.keys[i.ID] = key
	p.desired.mu.Unlock()
	p.log.Info("an instance starts", "instance", i.Name, "type", i.MachineType, "address", i.Address)
	err = p.stage.Machines.Launch(ctx, rehearsal.Machine{Name: i.Name, Address: netip.PrefixFrom(i.Address, i.Subnet.Bits()), Gateway: gateway(i.Subnet).Addr(),
		UserData: bootScript(i.Metadata), MemoryMiB: p.memory[i.MachineType], Shows: map[string]string{"/dev/tpm0": socket}})
	if err != nil {
		return errors.Join(err, t.Stop())
	}
	p.running[i.Name] = machine{i, t}
	return nil
}

// machine is an instance that was started here, with its TPM.
type machine struct {
	emulator.Instance
	tpm *softtpm.TPM
}

// removeMachine removes a machine, and then its TPM.
func (p *play) removeMachine(ctx context.Context, name string) error {
	err := p.stage.Machines.Destroy(ctx, name)
	if err != nil {
		return err
	}
	m, ok := p.running[name]
	if !ok {
		return nil
	}
	delete(p.running, name)
	return errors.Join(m.tpm.Stop(), os.RemoveAll(filepath.Join(p.dir, "tpm", strconv.FormatUint(m.ID, 36))))
}

// bootScript returns what an image runs at boot according to its metadata, in cloud-init's or Google's
// own key.
func bootScript(metadata map[string]string) string {
	if s := metadata[gcecloud.MetadataUserData]; s != "" {
		return s
	}
	return metadata[gcecloud.MetadataScript]
}

// gateway returns Google's address in a subnet, which is the first.
func gateway(subnet netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(subnet.Masked().Addr().Next(), subnet.Bits())
}

// reconcileDisks attaches each instance's disks, apart from the boot disk, to its machine.
func (p *play) reconcileDisks(ctx context.Context, want map[string]emulator.Instance) error {
	var errs []error
	plugged := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		i := want[name]
		if p.running[name].ID != i.ID {
			continue
		}
		for _, d := range i.Disks {
			if d.Boot {
				continue
			}
			plugged[d.Name] = true
			errs = append(errs, p.stage.Disks.Plug(ctx, rehearsal.Disk{Name: d.Name, GiB: d.GiB, Machine: name, Paths: []string{"/dev/" + d.Name, "/dev/disk/by-id/google-" + d.Device}}))
			p.disks[d.Name] = true
		}
	}
	existing, err := p.diskNames(ctx)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for name, used := range p.disks {
		switch {
		case !existing[name]:
			err := p.stage.Disks.Discard(ctx, name)
			if errs = append(errs, err); err == nil {
				delete(p.disks, name)
			}
		case used && !plugged[name]:
			err := p.stage.Disks.Unplug(ctx, name)
			if errs = append(errs, err); err == nil {
				p.disks[name] = false
			}
		}
	}
	return errors.Join(errs...)
}
