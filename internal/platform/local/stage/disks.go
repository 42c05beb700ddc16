package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
	"kops.local/kops/internal/platform/rehearsal"
)

// disks are sparse files, which machines access through loop devices.
type disks struct {
	host machine.Host

	mu      sync.Mutex
	plugged map[string]rehearsal.Disk // by name
}

func (d *disks) file(name string) string { return d.host.Path(site.Volumes, name+".img") }

const (
	// patience is how long a machine may take to start its init, and the kernel to release
	// a device after its last user has exited.
	patience = 10 * time.Second
	glance   = 50 * time.Millisecond
)

func (d *disks) Plug(ctx context.Context, x rehearsal.Disk) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.attach(ctx, x); err != nil {
		return fmt.Errorf("attach the disk %s to the machine %s: %w", x.Name, x.Machine, err)
	}
	return nil
}

func (d *disks) attach(ctx context.Context, x rehearsal.Disk) error {
	if err := site.CheckName(x.Name); err != nil {
		return err
	}
	if len(x.Paths) == 0 || x.GiB <= 0 {
		return fault.New(fault.Permanent, "a disk needs a size and at least one path: got %d GiB at %v", x.GiB, x.Paths)
	}
	if other := d.plugged[x.Name]; other.Machine != x.Machine {
		if err := d.detach(ctx, x.Name); err != nil {
			return err
		}
	}
	file := d.file(x.Name)
	if err := makeSparse(file, int64(x.GiB)<<30); err != nil {
		return err
	}
	device, err := attachLoop(ctx, file)
	if err != nil {
		return err
	}
	number, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "dev"))
	if err != nil {
		return err
	}
	d.plugged[x.Name] = x
	return d.runInMachine(ctx, x.Machine, append([]string{"sh", "-c", mountScript, "sh", strings.TrimSpace(string(number))}, x.Paths...)...)
}

// mountScript creates the node of a device, MAJOR:MINOR, at the first path, and links to it
// at the others, unless they exist, and checks that the device can be opened.
const mountScript = `set -eu
major=${1%:*} minor=${1#*:} first=$2
shift
is=$(printf %x:%x "$major" "$minor")
for at; do
  if [ "$at" = "$first" ]; then
    [ ! -b "$at" ] || [ "$(stat -c %t:%T "$at")" != "$is" ] || continue
  elif [ -L "$at" ] && [ "$(readlink "$at")" = "$first" ]; then
    continue
  fi
  mkdir -p "$(dirname "$at")"
  rm -f "$at.new"
  if [ "$at" = "$first" ]; then mknod -m 660 "$at.new" b "$major" "$minor"; else ln -s "$first" "$at.new"; fi
  mv -fT "$at.new" "$at"
done
: < "$first"
`

// runInMachine runs a command in a machine, as soon as its init has started.
func (d *disks) runInMachine(ctx context.Context, name string, command ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		_, err := d.host.RunInside(ctx, name, command...)
		if err == nil {
			return nil
		}
		if runs, lerr := d.host.Group(name).Populated(); lerr != nil || !runs || !sleep(ctx) {
			return err
		}
	}
}

// sleep waits a moment, and returns false if ctx is done.
func sleep(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(glance):
		return true
	}
}

// makeSparse creates a file of a size in bytes, unless it exists.
func makeSparse(file string, size int64) error {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := site.Write(file, nil, 0o600); err != nil {
		return err
	}
	return os.Truncate(file, size)
}

// attachLoop returns the loop device of a file, which it creates if there is none.
func attachLoop(ctx context.Context, file string) (string, error) {
	have, err := machine.Loops(file)
	if err != nil {
		return "", err
	}
	if len(have) > 0 {
		return have[0], nil
	}
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, "losetup", "--find", "--show", file)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("losetup: %w: %s", err, bytes.TrimSpace(errs.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}

// detachLoop detaches a file's loop devices, and waits until they are unused.
func detachLoop(ctx context.Context, file string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		have, err := machine.Loops(file)
		if err != nil || len(have) == 0 {
			return err
		}
		for _, device := range have {
			// The kernel frees a device that is in use as soon as it is unused.
			if out, err := exec.CommandContext(ctx, "losetup", "--detach", device).CombinedOutput(); err != nil && ctx.Err() == nil {
				if now, lerr := machine.Loops(file); lerr == nil && len(now) > 0 {
					return fmt.Errorf("losetup --detach %s: %w: %s", device, err, bytes.TrimSpace(out))
				}
			}
		}
		if have, err = machine.Loops(file); err != nil || len(have) == 0 {
			return err
		}
		if !sleep(ctx) {
			return fault.New(fault.Conflict, "its device is in use")
		}
	}
}

// detach detaches a disk from a machine that has ended, or that has stopped using it since
// Unplug. It fails with fault.Conflict if a running machine uses it.
func (d *disks) detach(ctx context.Context, name string) error {
	x, ok := d.plugged[name]
	if !ok {
		return nil
	}
	runs, err := d.host.Group(x.Machine).Populated()
	if err != nil {
		return err
	}
	devices, err := machine.Loops(d.file(name))
	if err != nil {
		return err
	}
	if runs && len(devices) > 0 {
		return fault.New(fault.Conflict, "it is attached to the machine %s", x.Machine)
	}
	if err := detachLoop(ctx, d.file(name)); err != nil {
		return err
	}
	delete(d.plugged, name)
	return nil
}

func (d *disks) Unplug(ctx context.Context, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	x, ok := d.plugged[name]
	if !ok {
		return nil
	}
	runs, err := d.host.Group(x.Machine).Populated()
	if err == nil && runs {
		err = d.runInMachine(ctx, x.Machine, append([]string{"rm", "-f"}, x.Paths...)...)
		if still, lerr := d.host.Group(x.Machine).Populated(); lerr == nil && !still {
			err = nil // it ended meanwhile, and its nodes with it
		}
	}
	if err == nil {
		err = detachLoop(ctx, d.file(name))
	}
	if err != nil {
		return fmt.Errorf("detach the disk %s from the machine %s: %w", name, x.Machine, err)
	}
	delete(d.plugged, name)
	return nil
}

func (d *disks) Discard(ctx context.Context, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := site.CheckName(name)
	if err == nil {
		err = d.detach(ctx, name)
	}
	if err == nil {
		err = os.Remove(d.file(name))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("discard the disk %s: %w", name, err)
	}
	return nil
}

// detachAll detaches the devices of all disks, no matter who plugged them in. The machines have ended
// already.
func (d *disks) detachAll(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	files, err := site.List(d.host.Path(site.Volumes))
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := detachLoop(ctx, d.host.Path(site.Volumes, f)); err != nil {
			return err
		}
	}
	clear(d.plugged)
	return nil
}
