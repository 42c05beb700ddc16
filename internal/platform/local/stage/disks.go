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

// disks are sparse files, which machines see through loop devices.
type disks struct {
	host machine.Host

	mu      sync.Mutex
	plugged map[string]rehearsal.Disk // by name
}

func (d *disks) file(name string) string { return d.host.Path(site.Volumes, name+".img") }

const (
	// patience is how long a machine may take to have an inside, and the kernel to give a
	// device back whose last user has gone.
	patience = 10 * time.Second
	glance   = 50 * time.Millisecond
)

func (d *disks) Plug(ctx context.Context, x rehearsal.Disk) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.plug(ctx, x); err != nil {
		return fmt.Errorf("plug the disk %s into the machine %s: %w", x.Name, x.Machine, err)
	}
	return nil
}

func (d *disks) plug(ctx context.Context, x rehearsal.Disk) error {
	if err := site.CheckName(x.Name); err != nil {
		return err
	}
	if len(x.Paths) == 0 || x.GiB <= 0 {
		return fault.New(fault.Permanent, "a disk has a size, and a path at least: got %d GiB at %v", x.GiB, x.Paths)
	}
	if other := d.plugged[x.Name]; other.Machine != x.Machine {
		if err := d.release(ctx, x.Name); err != nil {
			return err
		}
	}
	file := d.file(x.Name)
	if err := makeSparse(file, int64(x.GiB)<<30); err != nil {
		return err
	}
	device, err := attach(ctx, file)
	if err != nil {
		return err
	}
	number, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "dev"))
	if err != nil {
		return err
	}
	d.plugged[x.Name] = x
	return d.inside(ctx, x.Machine, append([]string{"sh", "-c", showScript, "sh", strings.TrimSpace(string(number))}, x.Paths...)...)
}

// showScript makes the node of a device, MAJOR:MINOR, at the first path, and links to it at
// the others, where they are not there, and looks whether the device can be opened.
const showScript = `set -eu
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

// inside runs a command in a machine, as soon as it has an inside.
func (d *disks) inside(ctx context.Context, name string, command ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		_, err := d.host.Inside(ctx, name, command...)
		if err == nil {
			return nil
		}
		if runs, lerr := d.host.Group(name).Populated(); lerr != nil || !runs || !rest(ctx) {
			return err
		}
	}
}

// rest waits a moment, and reports false when there is no more time.
func rest(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(glance):
		return true
	}
}

// makeSparse makes a file of a size in bytes, unless it is there.
func makeSparse(file string, size int64) error {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := site.Write(file, nil, 0o600); err != nil {
		return err
	}
	return os.Truncate(file, size)
}

// attach returns the loop device of a file, which gets one if it has none.
func attach(ctx context.Context, file string) (string, error) {
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

// detach takes the loop devices from a file. It waits until nobody uses them.
func detach(ctx context.Context, file string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		have, err := machine.Loops(file)
		if err != nil || len(have) == 0 {
			return err
		}
		for _, device := range have {
			// The kernel frees a device that is in use as soon as it is not.
			if out, err := exec.CommandContext(ctx, "losetup", "--detach", device).CombinedOutput(); err != nil && ctx.Err() == nil {
				if now, lerr := machine.Loops(file); lerr == nil && len(now) > 0 {
					return fmt.Errorf("losetup --detach %s: %w: %s", device, err, bytes.TrimSpace(out))
				}
			}
		}
		if have, err = machine.Loops(file); err != nil || len(have) == 0 {
			return err
		}
		if !rest(ctx) {
			return fault.New(fault.Conflict, "its device is in use")
		}
	}
}

// release takes a disk from a machine that has ended, or that has stopped using it since it
// was to be unplugged. It fails with fault.Conflict where a machine has it.
func (d *disks) release(ctx context.Context, name string) error {
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
		return fault.New(fault.Conflict, "the machine %s has it", x.Machine)
	}
	if err := detach(ctx, d.file(name)); err != nil {
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
		err = d.inside(ctx, x.Machine, append([]string{"rm", "-f"}, x.Paths...)...)
		if still, lerr := d.host.Group(x.Machine).Populated(); lerr == nil && !still {
			err = nil // it ended meanwhile, and its nodes with it
		}
	}
	if err == nil {
		err = detach(ctx, d.file(name))
	}
	if err != nil {
		return fmt.Errorf("unplug the disk %s from the machine %s: %w", name, x.Machine, err)
	}
	delete(d.plugged, name)
	return nil
}

func (d *disks) Discard(ctx context.Context, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := site.CheckName(name)
	if err == nil {
		err = d.release(ctx, name)
	}
	if err == nil {
		err = os.Remove(d.file(name))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("discard the disk %s: %w", name, err)
	}
	return nil
}

// strike takes the devices from all disks, no matter who plugged them in. The machines have ended.
func (d *disks) strike(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	files, err := site.List(d.host.Path(site.Volumes))
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := detach(ctx, d.host.Path(site.Volumes, f)); err != nil {
			return err
		}
	}
	clear(d.plugged)
	return nil
}
