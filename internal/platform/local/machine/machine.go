// Package machine makes, starts, finds and ends the machines of the local cloud. A machine is a
// systemd-nspawn container with an init of its own; it writes to a disk of its own, over an image
// that all machines share.
//
// A machine's mounts are in a namespace of its own and its processes in a control group of its
// own, so that both are gone when it is killed. Its state is in its folder; the kernel knows
// whether it runs.
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
	// Group is the group that it belongs to; empty for a machine by itself.
	Group string
	// Image is the root folder that it boots from, which it does not change.
	Image string
	// Address is its address, with the length of its network's prefix; Gateway
	// is the host's address in that network.
	Address netip.Prefix
	Gateway netip.Addr
	// Resolver answers its questions for names; zero: the servers that the host asks.
	Resolver netip.Addr
	// MemoryMiB, CPUs and DiskGiB are its size. 0 is all that the host has of CPUs, and
	// what the host can do without of memory and disk. The number of CPUs bounds the
	// time it may run; its inside still sees all of the host's.
	MemoryMiB, CPUs, DiskGiB int
	// UserData is a script, or several in a MIME message of many parts. They are
	// run once, when the machine is first up.
	UserData string
	// Folders of the host that it sees.
	Folders []Folder
	// Files are contents by absolute path, which take the place of the image's.
	// Anybody in the machine may read them.
	Files map[string][]byte
	// Template tells from which state of a group's wishes it was made.
	Template string
	// Labels are passed to its inside.
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
	Address               string // without the length of a prefix
	MemoryMiB, CPUs       int    // as wished
	DiskGiB               int    `json:",omitempty"` // as wished
	Created               time.Time
	Folders               []Folder          `json:",omitempty"`
	Labels                map[string]string `json:",omitempty"`
	// Running says that it has processes, and Marks are later decisions about it. They are not
	// part of its record.
	Running bool  `json:"-"`
	Marks   Marks `json:"-"`
}

// Host is what machines stand on.
type Host struct {
	site.Site
	Trees []cgroup.Tree
	// Systemd says that the host's own init is systemd, which then runs the
	// machines as transient services below the cluster's slice.
	Systemd bool
}

// On returns the host of a cluster.
func On(s site.Site) (Host, error) {
	trees, err := cgroup.Trees("/proc/self/mounts")
	if err != nil {
		return Host{}, err
	}
	_, err = os.Stat("/run/systemd/system")
	return Host{Site: s, Trees: trees, Systemd: err == nil && cgroup.Pure(trees)}, nil
}

// recordFile holds a machine's record, in its folder. It is written last, so
// that a machine without it was never finished.
const recordFile = "machine.json"

// commonGroup is the control group of all machines of the host, which a limit keeps
// from taking all of its memory. Where systemd is the host's init, parentSlice is it.
const commonGroup = "kops"

// Group is the machine's control group.
func (h Host) Group(name string) cgroup.Group {
	if h.Systemd {
		return cgroup.Group{Trees: h.Trees, Path: filepath.Join(parentSlice, h.slice(), h.unit(name))}
	}
	// Machines that an earlier kops has made are in no common group.
	if old := (cgroup.Group{Trees: h.Trees, Path: filepath.Join("kops-"+h.ID(), name)}); old.Exists() {
		return old
	}
	return cgroup.Group{Trees: h.Trees, Path: filepath.Join(commonGroup, h.ID(), name)}
}

// List returns the cluster's machines in the order of their names. One whose
// making was cut short is among them: it is not running and has no group.
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

// Create makes a machine and starts it. It returns as soon as the machine is on its way up; its
// boot output is in its Log.
func (h Host) Create(ctx context.Context, s Spec, now time.Time) error {
	if err := s.check(h.Path()); err != nil {
		return err
	}
	dir := h.Path(site.Machines, s.Name)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make the machine %s: %w", s.Name, err)
	}
	mem, err := hostMemory()
	if err == nil {
		err = h.furnish(dir, s, mem)
	}
	if err == nil {
		err = h.makeDisk(ctx, dir, s.DiskGiB)
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
		return errors.Join(fmt.Errorf("make the machine %s: %w", s.Name, err), h.Delete(ctx, s.Name))
	}
	return nil
}

// check refuses what the kernel or a script could misread.
func (s Spec) check(dir string) error {
	if err := site.CheckName(s.Name); err != nil {
		return err
	}
	for _, p := range []string{dir, s.Image} {
		if !filepath.IsAbs(p) || strings.ContainsAny(p, ":,\\\n") {
			return fmt.Errorf("make the machine %s: the folder %q must be an absolute path without a colon, a comma or a backslash", s.Name, p)
		}
	}
	if _, err := os.Stat(s.Image); err != nil {
		return fmt.Errorf("make the machine %s: its image: %w", s.Name, err)
	}
	for p := range s.Files {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p {
			return fmt.Errorf("make the machine %s: the path of a file, %q, must be absolute and without dots", s.Name, p)
		}
	}
	for _, f := range s.Folders {
		if !filepath.IsAbs(f.Host) || !filepath.IsAbs(f.Path) || strings.ContainsAny(f.Host+f.Path, ":\\\n") {
			return fmt.Errorf("make the machine %s: cannot show the folder %q at %q: both must be absolute paths without a colon", s.Name, f.Host, f.Path)
		}
		if _, err := os.Stat(f.Host); err != nil {
			return fmt.Errorf("make the machine %s: a folder that it is to see: %w", s.Name, err)
		}
	}
	return nil
}

// Delete ends the machine at once and removes everything it had. It is not an error if it does not
// exist. The registry knows it as long as it may run; its folder is removed last, so that an
// interrupted deletion is found and finished.
func (h Host) Delete(ctx context.Context, name string) error {
	g := h.Group(name)
	err := g.Kill(ctx)
	if err == nil {
		err = h.unplug(name)
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

// unplug removes the machine's interface from the bridge. The kernel would do so
// by itself, but some time after the machine's last process has ended, and until
// then no other machine can have the address.
func (h Host) unplug(name string) error {
	var m Machine
	if ok, err := site.ReadJSON(h.Path(site.Machines, name, recordFile), &m); err != nil || !ok {
		return err // without a record it was never started
	}
	a, err := netip.ParseAddr(m.Address)
	if err != nil {
		return err
	}
	return network.Remove(h.link(a))
}

// UserData returns what the machine was given to run.
func (h Host) UserData(name string) (string, error) {
	data, err := os.ReadFile(h.Path(site.Machines, name, seedFolder, seedDir, "user-data"))
	return string(data), err
}

// Log returns what the machine wrote on its console since it was made: the first
// 16 MiB of it.
func (h Host) Log(name string) ([]byte, error) {
	data, err := os.ReadFile(h.Path(site.Machines, name, consoleFile))
	return bytes.ReplaceAll(data, []byte{'\r'}, nil), err // a console returns its carriage
}
