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

// wishes are the machines that the emulator wants, which the play makes: the emulator holds its
// breath while it calls.
type wishes struct {
	stage   rehearsal.Stage
	changed func()

	mu   sync.Mutex
	want map[string]emulator.Instance // by name
	keys map[uint64]string            // the attestation keys of instances, by their numbers
}

var _ emulator.Machines = (*wishes)(nil)

func (w *wishes) set(change func()) error {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	w.changed()
	return nil
}

// Start wants a machine.
func (w *wishes) Start(_ context.Context, i emulator.Instance) error {
	return w.set(func() { w.want[i.Name] = i })
}

// Plug wants a machine to have other disks.
func (w *wishes) Plug(ctx context.Context, i emulator.Instance) error { return w.Start(ctx, i) }

// Stop removes a machine. An instance that starts again has a new disk: the old one was on this
// host.
func (w *wishes) Stop(ctx context.Context, i emulator.Instance) error { return w.Delete(ctx, i) }

// Delete wants a machine no longer.
func (w *wishes) Delete(_ context.Context, i emulator.Instance) error {
	return w.set(func() {
		if w.want[i.Name].ID == i.ID {
			delete(w.want, i.Name)
		}
	})
}

// Console is what a machine wrote.
func (w *wishes) Console(i emulator.Instance) ([]byte, error) {
	return w.stage.Machines.Console(i.Name)
}

// now are the machines that are wanted.
func (w *wishes) now() map[string]emulator.Instance {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.want)
}

// key is the attestation key of an instance.
func (w *wishes) key(i emulator.Instance) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k, ok := w.keys[i.ID]; ok {
		return k, nil
	}
	return "", fault.New(fault.NotYet, "the instance %s has not started yet", i.Name)
}

// keepInstances has the machines of this host be those that are wanted: what is not wanted ends, and
// of what died here the emulator learns.
func (p *play) keepInstances(ctx context.Context, want map[string]emulator.Instance) error {
	there, err := p.stage.Machines.List()
	if err != nil {
		return err
	}
	var errs []error
	for name, runs := range there {
		i, wanted := want[name]
		switch made := p.running[name]; {
		case !wanted || made.ID != i.ID:
			errs = append(errs, p.end(ctx, name))
			delete(there, name)
		case !runs:
			p.log.Warn("an instance has died", "instance", name)
			errs = append(errs, p.died(ctx, i))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if _, is := there[name]; is {
			continue
		}
		if err := p.launch(ctx, want[name]); err != nil {
			errs = append(errs, fmt.Errorf("start the instance %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// died has the group of an instance recreate it, under its name.
func (p *play) died(ctx context.Context, i emulator.Instance) error {
	_, err := p.api.Compute.Instances.Delete(i.Project, i.Zone, i.Name).Context(ctx).Do()
	if err = gceapi.Bare(err); err != nil && !fault.Is(err, fault.Gone) {
		return fmt.Errorf("end the instance %s, which has died: %w", i.Name, err)
	}
	return nil
}

// launch starts the machine of an instance, with a TPM of its own.
func (p *play) launch(ctx context.Context, i emulator.Instance) error {
	id := strconv.FormatUint(i.ID, 36)
	state, socket := filepath.Join(p.dir, "tpm", id), filepath.Join(p.dir, "tpm", id+".sock")
	key, err := softtpm.Prepare(ctx, state)
	if err != nil {
		return err
	}
	t, err := softtpm.Start(ctx, state, socket, rehearsal.Tie)
	if err != nil {
		return err
	}
	p.wishes.mu.Lock()
	p.wishes.keys[i.ID] = key
	p.wishes.mu.Unlock()
	p.log.Info("an instance starts", "instance", i.Name, "type", i.MachineType, "address", i.Address)
	err = p.stage.Machines.Launch(ctx, rehearsal.Machine{Name: i.Name, Address: netip.PrefixFrom(i.Address, i.Subnet.Bits()), Gateway: gateway(i.Subnet).Addr(),
		UserData: script(i.Metadata), MemoryMiB: p.memory[i.MachineType], Shows: map[string]string{"/dev/tpm0": socket}})
	if err != nil {
		return errors.Join(err, t.Stop())
	}
	p.running[i.Name] = machine{i, t}
	return nil
}

// machine is an instance that was started here, and its TPM.
type machine struct {
	emulator.Instance
	tpm *softtpm.TPM
}

// end ends a machine, and its TPM after it.
func (p *play) end(ctx context.Context, name string) error {
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

// script is what an image starts with, as its metadata say: cloud-init's, or Google's own.
func script(metadata map[string]string) string {
	if s := metadata[gcecloud.MetadataUserData]; s != "" {
		return s
	}
	return metadata[gcecloud.MetadataScript]
}

// gateway is Google's address in a subnet: the first.
func gateway(subnet netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(subnet.Masked().Addr().Next(), subnet.Bits())
}

// keepDisks shows each machine the disks of its instance, besides its system's.
func (p *play) keepDisks(ctx context.Context, want map[string]emulator.Instance) error {
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
	there, err := p.diskNames(ctx)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for name, used := range p.disks {
		switch {
		case !there[name]:
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
