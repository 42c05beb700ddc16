// Package machine creates, starts, finds and removes the machines of the local cloud. A machine is
// a systemd-nspawn container with its own init; it writes to its own disk, on top of an image that
// all machines share.
//
// A machine has its own mount namespace and its own control group, so that both its mounts and its
// processes are gone when it is killed. Its state is in its folder; the kernel shows whether it
// runs.
//
// It must not know why a machine is wanted or what it is for.
package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kops.local/kops/internal/platform/local/cgroup"
	"kops.local/kops/internal/platform/local/localcloud"
	"kops.local/kops/internal/platform/local/network"
	"kops.local/kops/internal/platform/local/site"
)

// Spec is the desired state of a machine.
type Spec struct {
	// Name is its host name.
	Name string
	// Group is the group that it belongs to; empty for a standalone machine.
	Group string
	// Image is the root folder that it boots from; it is not modified.
	Image string
	// Address is its address, with its network's prefix length; Gateway is the host's
	// address in that network.
	Address netip.Prefix
	Gateway netip.Addr
	// Resolver is its DNS server; zero: the host's DNS servers.
	Resolver netip.Addr
	// MemoryMiB, CPUs and DiskGiB are its size. 0 means all of the host's CPUs, or as
	// much memory and disk as the host can spare. CPUs limits CPU time; inside, all CPUs
	// of the host are still visible.
	MemoryMiB, CPUs, DiskGiB int
	// MinDiskGiB is the least size of a disk that the host chooses; 0 means the host's own minimum.
	MinDiskGiB int
	// UserData is a script, or several in a multipart MIME message. They are run once,
	// on the machine's first boot.
	UserData string
	// Folders are the host's folders that it sees.
	Folders []Folder
	// Files are contents by absolute path, which replace the image's files. Any user
	// in the machine may read them.
	Files map[string][]byte
	// Template identifies the state of the group from which it was created.
	Template string
	// Labels are passed to the machine.
	Labels map[string]string
}

// Folder is a folder of the host that a machine sees at Path.
type Folder struct {
	Host, Path string
	ReadOnly   bool
}

// Machine is a machine that exists.
type Machine struct {
	Name, Group, Template string
	Image                 string
	Address               string // without a prefix length
	MemoryMiB, CPUs       int    // as requested
	DiskGiB               int    `json:",omitempty"` // as requested
	Created               time.Time
	Folders               []Folder          `json:",omitempty"`
	Labels                map[string]string `json:",omitempty"`
	// Running reports whether it has processes, and Marks are later decisions about it. They
	// are not part of its record.
	Running bool  `json:"-"`
	Marks   Marks `json:"-"`
}

// Host is the host of a cluster's machines.
type Host struct {
	site.Site
	Trees []cgroup.Tree
	// Systemd is true if the host's own init is systemd, which then runs the machines
	// as transient services in the cluster's slice.
	Systemd bool
}

// NewHost returns the host of a cluster.
func NewHost(s site.Site) (Host, error) {
	trees, err := cgroup.Trees("/proc/self/mounts")
	if err != nil {
		return Host{}, err
	}
	_, err = os.Stat("/run/systemd/system")
	return Host{Site: s, Trees: trees, Systemd: err == nil && cgroup.IsUnified(trees)}, nil
}

// recordFile contains a machine's record, in its folder. It is written last, so that
// a machine without it was never completed.
const recordFile = "machine.json"

// commonGroup is the control group of all machines of the host, whose limit keeps them from taking
// all of its memory. If systemd is the host's init, parentSlice is used instead.
const commonGroup = "kops"

// Group returns the machine's control group.
func (h Host) Group(name string) cgroup.Group {
	if h.Systemd {
		return cgroup.Group{Trees: h.Trees, Path: filepath.Join(parentSlice, h.slice(), h.unit(name))}
	}
	// Machines created by an earlier kops are not in the common group.
	if old := (cgroup.Group{Trees: h.Trees, Path: filepath.Join("kops-"+h.ID(), name)}); old.Exists() {
		return old
	}
	return cgroup.Group{Trees: h.Trees, Path: filepath.Join(commonGroup, h.ID(), name)}
}

// List returns the cluster's machines in the order of their names. It includes
// machines whose creation was interrupted: they are not running and have no group.
func (h Host) List() ([]Machine, error) {
	names, err := site.List(h.Path(site.Machines))
	if err != nil {
		return nil, fmt.Errorf("list the machines of %s: %w", h.Cluster, err)
	}
	out := make([]Machine, len(names))
	for i, n := range names {
		if _, err := site.ReadJSON(h.Path(site.Machines, n, recordFile), &out[i]); err != nil {
			return nil, err
		}
		out[i].Name = n
		var err error
		if out[i].Marks, err = h.marks(n); err != nil {
			return nil, err
		}
		if out[i].Running, err = h.Group(n).Populated(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Create creates a machine and starts it. It returns as soon as the machine is booting; its boot
// output is in its Log.
func (h Host) Create(ctx context.Context, s Spec, now time.Time) error {
	if err := s.check(h.Path()); err != nil {
		return err
	}
	dir := h.Path(site.Machines, s.Name)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("create the machine %s: %w", s.Name, err)
	}
	mem, err := hostMemory()
	if err == nil {
		err = h.createFolder(dir, s, mem)
	}
	if err == nil {
		err = h.makeDisk(ctx, dir, s.DiskGiB, s.MinDiskGiB)
	}
	if err == nil {
		err = site.WriteJSON(filepath.Join(dir, recordFile), Machine{Name: s.Name, Group: s.Group, Template: s.Template,
			Image: s.Image, Address: s.Address.Addr().String(), MemoryMiB: s.MemoryMiB, CPUs: s.CPUs, DiskGiB: s.DiskGiB, Created: now.UTC(),
			Folders: s.Folders, Labels: s.Labels})
	}
	if err == nil {
		err = h.start(ctx, dir, s, mem)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("create the machine %s: %w", s.Name, err), h.Delete(ctx, s.Name))
	}
	return nil
}

// check rejects values that the kernel or a script could misread.
func (s Spec) check(dir string) error {
	if err := site.CheckName(s.Name); err != nil {
		return err
	}
	for _, p := range []string{dir, s.Image} {
		if !filepath.IsAbs(p) || strings.ContainsAny(p, ":,\\\n") {
			return fmt.Errorf("create the machine %s: the folder %q must be an absolute path without a colon, a comma or a backslash", s.Name, p)
		}
	}
	if _, err := os.Stat(s.Image); err != nil {
		return fmt.Errorf("create the machine %s: its image: %w", s.Name, err)
	}
	for p := range s.Files {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p {
			return fmt.Errorf("create the machine %s: the path of a file, %q, must be absolute and without dots", s.Name, p)
		}
	}
	for _, f := range s.Folders {
		if !filepath.IsAbs(f.Host) || !filepath.IsAbs(f.Path) || strings.ContainsAny(f.Host+f.Path, ":\\\n") {
			return fmt.Errorf("create the machine %s: cannot mount the folder %q at %q: both must be absolute paths without a colon", s.Name, f.Host, f.Path)
		}
		if _, err := os.Stat(f.Host); err != nil {
			return fmt.Errorf("create the machine %s: a folder to mount into it: %w", s.Name, err)
		}
	}
	return nil
}

// Delete kills the machine and removes everything it had. It is not an error if it does not exist.
// Its registry entry exists as long as it may run; its folder is removed last, so that an
// interrupted deletion is found and completed.
func (h Host) Delete(ctx context.Context, name string) error {
	g := h.Group(name)
	err := g.Kill(ctx)
	if err == nil {
		err = h.removeLink(name)
	}
	if err == nil {
		err = h.Retire(ctx, h.unit(name))
	}
	if err == nil {
		if err = os.Remove(h.Path(site.Registry, name+localcloud.MachineSuffix)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = g.Remove(ctx)
	}
	if err == nil {
		err = h.releaseDisk(ctx, name)
	}
	if err == nil {
		err = os.RemoveAll(h.Path(site.Machines, name))
	}
	if err != nil {
		return fmt.Errorf("delete the machine %s: %w", name, err)
	}
	return nil
}

// removeLink removes the machine's interface from the bridge. The kernel would do so
// itself, but only some time after the machine's last process has exited, and until
// then no other machine can have the address.
func (h Host) removeLink(name string) error {
	var m Machine
	if ok, err := site.ReadJSON(h.Path(site.Machines, name, recordFile), &m); err != nil || !ok {
		return err // without a record it was never started
	}
	a, err := netip.ParseAddr(m.Address)
	if err != nil {
		return err
	}
	return network.Remove(h.Link(a))
}

// UserData returns the machine's user data.
func (h Host) UserData(name string) (string, error) {
	data, err := os.ReadFile(h.Path(site.Machines, name, seedFolder, seedDir, "user-data"))
	return string(data), err
}

// Log returns the machine's console output since its creation: the first 16 MiB of it.
func (h Host) Log(name string) ([]byte, error) {
	data, err := os.ReadFile(h.Path(site.Machines, name, consoleFile))
	return bytes.ReplaceAll(data, []byte{'\r'}, nil), err // a console adds carriage returns
}
