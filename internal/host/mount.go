package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"kops.local/kops/internal/fault"
	"kops.local/kops/internal/resource"
)

// Mount is a mounted file system, which is made on its device when that is empty.
type Mount struct {
	Path       string `res:"forbid"`
	Device     string `res:"forbid"`
	Filesystem string `res:"forbid"`
	// FormatOptions and Options are those of mkfs and of mount.
	FormatOptions []string `res:"writeonly"`
	Options       []string `res:"writeonly"`
}

// Mounts is the kind of Mount. In a folder, where no program is run, only the place of the mount is made.
var Mounts = resource.Kind[Mount, *Machine]{
	Name: "host_mount", API: "commands", Direct: true,
	Key: mountKey, List: listMounts, Create: mount, Delete: unmount,
}

// mountKey holds the device, as its name is to be compared: the kernel has another
// for one that is named by a link.
func mountKey(v *Mount) string { return v.Device + " on " + v.Path }

// listMounts reports a device by the name that it is wanted by. Another one on its
// place is an error of class fault.Permanent.
func listMounts(_ context.Context, m *Machine, s resource.Scope) ([]*Mount, error) {
	text, err := os.ReadFile(m.path("/proc/self/mounts"))
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, classed(err)
	}
	at := map[string]*Mount{} // the last mount on a place is the one that is seen
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 2 {
			path := unescape(f[1])
			at[path] = &Mount{Device: unescape(f[0]), Path: path, Filesystem: f[2]}
		}
	}
	var out []*Mount
	for _, key := range s.Names {
		device, path, _ := strings.Cut(key, " on ")
		v := at[path]
		if v == nil {
			continue
		}
		if !m.sameDevice(v.Device, device) {
			return nil, fault.Wrap(fault.Permanent, fmt.Errorf("the device %s is mounted on %s, and not %s", v.Device, path, device),
				"unmount it, or name another path in spec.volumeMounts")
		}
		out = append(out, &Mount{Device: device, Path: path, Filesystem: v.Filesystem})
	}
	return out, nil
}

// sameDevice reports whether two names are of one device.
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

// unescape reads a field of /proc/self/mounts.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// mount never makes a file system on a device that holds anything.
func mount(ctx context.Context, m *Machine, v *Mount) error {
	if err := os.MkdirAll(m.path(v.Path), 0o755); err != nil {
		return classed(err)
	}
	if m.Command == nil {
		return nil
	}
	if _, err := os.Stat(m.path(v.Device)); missing(err) {
		return fault.Wrap(fault.NotYet, fmt.Errorf("the device %s is not there", v.Device), "attach the volume to the machine, or name its device rightly in spec.volumeMounts")
	}
	held, err := m.Command(ctx, "blkid", "-p", "-o", "value", "-s", "TYPE", v.Device)
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed) && failed.ExitCode() == 2: // it says so of an empty device
		if _, err := m.Command(ctx, "mkfs."+v.Filesystem, append(append([]string{}, v.FormatOptions...), v.Device)...); err != nil {
			return err
		}
	case err != nil:
		return err
	case strings.TrimSpace(string(held)) != v.Filesystem:
		return fault.Wrap(fault.Permanent, fmt.Errorf("the device %s holds %s and not %s", v.Device, strings.TrimSpace(string(held)), v.Filesystem),
			"give the file system that is there, or empty the device")
	}
	args := []string{"-t", v.Filesystem}
	if len(v.Options) > 0 {
		args = append(args, "-o", strings.Join(v.Options, ","))
	}
	_, err = m.Command(ctx, "mount", append(args, v.Device, v.Path)...)
	return err
}

func unmount(ctx context.Context, m *Machine, v *Mount) error {
	if m.Command == nil {
		return nil
	}
	if still, err := listMounts(ctx, m, resource.Scope{Names: []string{mountKey(v)}}); err != nil || len(still) == 0 {
		return err
	}
	_, err := m.Command(ctx, "umount", v.Path)
	return err
}
