package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// Mount is a mounted file system, which is created on its device if that is empty.
type Mount struct {
	// Path is in the form that path.Clean returns.
	Path       string `res:"forbid"`
	Device     string `res:"forbid"`
	Filesystem string `res:"forbid"`
	// FormatOptions are options of mkfs.
	FormatOptions []string `res:"writeonly"`
	// Unit is the systemd unit that mounts the file system, now and on every boot; see
	// MountUnit.
	Unit resource.Content
}

// Mounts is the kind of Mount. A changed unit takes effect on the next boot: a
// file system in use is left alone. In a folder, where no program is run, the file
// system counts as mounted as soon as its unit exists.
var Mounts = resource.Kind[Mount, *Machine]{
	Name: "host_mount", API: "commands", Direct: true,
	Key: mountKey, List: listMounts, Create: mount, Delete: unmount,
	Update: []resource.Setter[Mount, *Machine]{{Fields: []string{"Unit"},
		Set: func(ctx context.Context, m *Machine, _, want *Mount) error { return m.keepMount(ctx, want) }}},
}

// MountUnit returns the unit of a mount. All services wait until it is mounted, or
// mounting fails (systemd.mount(5), default dependencies): a missing device delays
// the boot, but does not stop it. A service that must not run without it declares
// RequiresMountsFor.
func MountUnit(v Mount, options []string) string {
	var w strings.Builder
	line := func(name, value string) { w.WriteString(name + "=" + strings.ReplaceAll(value, "%", "%%") + "\n") }
	w.WriteString("[Unit]\n")
	line("Description", v.Device+" on "+v.Path)
	w.WriteString("\n[Mount]\n")
	line("What", v.Device)
	line("Where", v.Path)
	line("Type", v.Filesystem)
	if len(options) > 0 {
		line("Options", strings.Join(options, ","))
	}
	w.WriteString("\n[Install]\nWantedBy=local-fs.target\n")
	return w.String()
}

// filesystemOf returns the type of the file system in the text of a MountUnit.
func filesystemOf(text string) string {
	_, rest, _ := strings.Cut(text, "\nType=")
	kind, _, _ := strings.Cut(rest, "\n")
	return kind
}

// mountUnitName returns the systemd name of a mount's unit.
func mountUnitName(path string) string { return unit.UnitNamePathEscape(path) + ".mount" }

// mountKey contains the device's name as it is wanted: the kernel uses another name for a
// device that is named by a link.
func mountKey(v *Mount) string { return v.Device + " on " + v.Path }

func splitMountKey(key string) (device, path string) {
	device, path, _ = strings.Cut(key, " on ")
	return device, path
}

// listMounts reports a device under the name by which it is wanted, and its unit if that is
// enabled on boot. Another device at its path is an error of class fault.Permanent.
func listMounts(ctx context.Context, m *Machine, s resource.Scope) ([]*Mount, error) {
	if len(s.Names) == 0 {
		return nil, nil
	}
	at, err := m.mountsByPath()
	if err != nil {
		return nil, err
	}
	var units []string
	for _, key := range s.Names {
		_, path := splitMountKey(key)
		units = append(units, mountUnitName(path))
	}
	states, err := m.Systemd.States(ctx, units)
	if err != nil {
		return nil, err
	}
	var out []*Mount
	for i, key := range s.Names {
		device, path := splitMountKey(key)
		text, err := os.ReadFile(m.path(unitFile(units[i])))
		if err != nil && !isMissing(err) {
			return nil, classifyFileError(err)
		}
		v, here := at[path]
		if m.Command == nil && len(text) > 0 { // nothing is mounted in a folder
			v, here = Mount{Device: device, Filesystem: filesystemOf(string(text))}, true
		}
		if !here {
			continue
		}
		if !m.sameDevice(v.Device, device) {
			return nil, fault.Wrap(fault.Permanent, fmt.Errorf("the device %s is mounted on %s, not %s", v.Device, path, device),
				"unmount it, or use another path in spec.volumeMounts")
		}
		v.Device, v.Path = device, path
		if states[units[i]].Enabled {
			v.Unit = resource.Text(resource.Lit(string(text)))
		}
		out = append(out, &v)
	}
	return out, nil
}

// mountsByPath lists the mounts by path; the last mount on a path is the visible one.
func (m *Machine) mountsByPath() (map[string]Mount, error) {
	text, err := os.ReadFile(m.path("/proc/self/mounts"))
	if err != nil && !isMissing(err) {
		return nil, classifyFileError(err)
	}
	at := map[string]Mount{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 2 {
			path := unescape(f[1])
			at[path] = Mount{Device: unescape(f[0]), Path: path, Filesystem: f[2]}
		}
	}
	return at, nil
}

// sameDevice reports whether two names refer to the same device.
func (m *Machine) sameDevice(a, b string) bool {
	if a == b {
		return true
	}
	x, err := os.Stat(m.path(a))
	if err != nil { // a file system need not have a device
		return false
	}
	y, err := os.Stat(m.path(b))
	return err == nil && os.SameFile(x, y)
}

// unescape decodes a field of /proc/self/mounts.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// mount mounts a file system; it never formats a device that contains anything.
func mount(ctx context.Context, m *Machine, v *Mount) error {
	if err := os.MkdirAll(m.path(v.Path), 0o755); err != nil {
		return classifyFileError(err)
	}
	if m.Command != nil {
		if err := m.format(ctx, v); err != nil {
			return err
		}
	}
	if err := m.keepMount(ctx, v); err != nil {
		return err
	}
	return m.Systemd.Start(ctx, mountUnitName(v.Path), true)
}

// format creates the file system unless it exists.
func (m *Machine) format(ctx context.Context, v *Mount) error {
	if _, err := os.Stat(m.path(v.Device)); isMissing(err) {
		return fault.Wrap(fault.NotYet, fmt.Errorf("the device %s does not exist", v.Device), "attach the volume to the machine, or correct its device in spec.volumeMounts")
	}
	held, err := m.Command(ctx, "blkid", "-p", "-o", "value", "-s", "TYPE", v.Device)
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed) && failed.ExitCode() == 2: // blkid's exit code for an empty device
		_, err := m.Command(ctx, "mkfs."+v.Filesystem, append(append([]string{}, v.FormatOptions...), v.Device)...)
		return err
	case err != nil:
		return err
	case strings.TrimSpace(string(held)) != v.Filesystem:
		return fault.Wrap(fault.Permanent, fmt.Errorf("the device %s contains %s, not %s", v.Device, cmp.Or(strings.TrimSpace(string(held)), "partitions"), v.Filesystem),
			"set the existing file system in the spec, or empty the device")
	}
	return nil
}

// keepMount has the file system mounted on every boot.
func (m *Machine) keepMount(ctx context.Context, v *Mount) error {
	name := mountUnitName(v.Path)
	text, _ := v.Unit.Value().Known() // the executor has resolved it
	if err := m.write(unitFile(name), 0o644, owner{}, strings.NewReader(text)); err != nil {
		return err
	}
	if err := m.Systemd.Reload(ctx); err != nil {
		return err
	}
	return m.Systemd.Enable(ctx, name, true)
}

func unmount(ctx context.Context, m *Machine, v *Mount) error {
	return deleteUnit(ctx, m, &Unit{Name: mountUnitName(v.Path)})
}
