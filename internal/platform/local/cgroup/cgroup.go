// Package cgroup creates, reads, kills and removes the control group of a machine, on hosts with
// version 1 (one tree for each controller), version 2 (one tree for all) or both.
//
// A machine has one group of the same name in every tree, which is the root as seen from inside the
// machine. The group also distinguishes its processes from all others.
//
// It must not know what runs in a group.
package cgroup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Tree is the mount point of one hierarchy.
type Tree struct {
	Dir     string
	Unified bool // version 2
}

// Trees reads the hierarchies of this host from a table such as /proc/self/mounts.
func Trees(mounts string) ([]Tree, error) {
	f, err := os.Open(mounts)
	if err != nil {
		return nil, fmt.Errorf("find the control groups: %w", err)
	}
	defer f.Close() // only read
	var out []Tree
	for lines := bufio.NewScanner(f); lines.Scan(); {
		w := strings.Fields(lines.Text())
		if len(w) < 3 || (w[2] != "cgroup" && w[2] != "cgroup2") || !strings.HasPrefix(w[1], "/sys/fs/cgroup") {
			continue
		}
		t := Tree{w[1], w[2] == "cgroup2"}
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("find the control groups: no hierarchy is mounted below /sys/fs/cgroup")
	}
	return out, nil
}

// IsUnified reports whether the host has version 2 only.
func IsUnified(trees []Tree) bool { return len(trees) == 1 && trees[0].Unified }

// Group is one control group, identified by its path from the root of every tree.
type Group struct {
	Trees []Tree
	Path  string
}

// Limits bound the resources of a group's processes; 0 means no limit. Memory beyond
// MemoryBytes is not swapped out to the host's swap.
type Limits struct {
	MemoryBytes int64
	CPUs        int
}

// period is the interval in microseconds over which the kernel enforces CPU limits;
// it is the kernel's own default.
const period = 100_000

// Dirs returns the group's folders, one in each tree.
func (g Group) Dirs() []string {
	out := make([]string, len(g.Trees))
	for i, t := range g.Trees {
		out[i] = filepath.Join(t.Dir, g.Path)
	}
	return out
}

// Exists reports whether the group exists in any tree.
func (g Group) Exists() bool {
	return slices.ContainsFunc(g.Dirs(), func(dir string) bool {
		_, err := os.Stat(dir)
		return err == nil
	})
}

// Create creates the group in every tree, unless it exists, and sets its limits.
func (g Group) Create(l Limits) error {
	for _, t := range g.Trees {
		err := g.createIn(t, l)
		for range 3 { // a parent is removed with the last group in it, possibly by another process
			if errors.Is(err, fs.ErrNotExist) {
				err = g.createIn(t, l)
			}
		}
		if err != nil {
			return fmt.Errorf("create the control group %s: %w", filepath.Join(t.Dir, g.Path), err)
		}
	}
	return nil
}

func (g Group) createIn(t Tree, l Limits) error {
	dir := t.Dir
	for part := range strings.SplitSeq(g.Path, "/") {
		if t.Unified {
			if err := delegate(dir); err != nil {
				return err
			}
		}
		parent := dir
		dir = filepath.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		// A new group of version 1 has no processors until some are assigned.
		for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := copyFromParent(parent, dir, f); err != nil {
				return err
			}
		}
	}
	return setLimits(dir, t, l)
}

// delegate enables every controller for the groups below a folder of version 2.
func delegate(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, c := range strings.Fields(string(data)) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return fmt.Errorf("use the controller %s: %w", c, err)
		}
	}
	return nil
}

func copyFromParent(parent, dir, file string) error {
	if _, err := os.Stat(filepath.Join(dir, "cgroup.clone_children")); err != nil {
		return nil // version 2 inherits automatically
	}
	value, err := os.ReadFile(filepath.Join(parent, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, file), value, 0)
}

func setLimits(dir string, t Tree, l Limits) error {
	type setting struct{ name, value string }
	var settings []setting // in an order that the kernel accepts
	if bytes := strconv.FormatInt(l.MemoryBytes, 10); l.MemoryBytes > 0 && t.Unified {
		settings = append(settings, setting{"memory.max", bytes}, setting{"memory.swap.max", "0"})
	} else if l.MemoryBytes > 0 {
		settings = append(settings, setting{"memory.limit_in_bytes", bytes}, setting{"memory.memsw.limit_in_bytes", bytes})
	}
	if l.CPUs > 0 && t.Unified {
		settings = append(settings, setting{"cpu.max", fmt.Sprintf("%d %d", l.CPUs*period, period)})
	} else if l.CPUs > 0 {
		settings = append(settings, setting{"cpu.cfs_quota_us", strconv.Itoa(l.CPUs * period)})
	}
	for _, s := range settings {
		file := filepath.Join(dir, s.name)
		if _, err := os.Stat(file); err != nil {
			continue // another tree has this controller, or the kernel does not account for swap
		}
		if err := os.WriteFile(file, []byte(s.value), 0); err != nil {
			return fmt.Errorf("set %s to %s: %w", s.name, s.value, err)
		}
	}
	return nil
}

// Processes lists the process IDs of the group and of those below it. A group that
// does not exist has none.
func (g Group) Processes() ([]int, error) {
	seen := map[int]bool{}
	err := g.forEach(func(pid int) bool {
		seen[pid] = true
		return true
	})
	return slices.Sorted(maps.Keys(seen)), err
}

// Populated reports whether the group has a process. It stops at the first one, which
// makes it cheap where there are many groups below.
func (g Group) Populated() (bool, error) {
	found := false
	err := g.forEach(func(int) bool {
		found = true
		return false
	})
	return found, err
}

// forEach calls yield for the processes in every tree, for some more than once, until yield returns
// false.
func (g Group) forEach(yield func(pid int) bool) error {
	more := true
	for _, dir := range g.Dirs() {
		err := forEachProcess(dir, func(pid int) bool {
			more = yield(pid)
			return more
		})
		if err != nil {
			return fmt.Errorf("list the processes of %s: %w", dir, err)
		}
		if !more {
			break
		}
	}
	return nil
}

func forEachProcess(dir string, yield func(pid int) bool) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was removed meanwhile
		}
		if err != nil || !d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return nil // removed, or a threaded group, whose processes are listed in its parent
		}
		for _, f := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 0 && !yield(pid) {
				return fs.SkipAll
			}
		}
		return nil
	})
}

// wait is the interval at which a group that is to become empty is polled.
const wait = 10 * time.Millisecond

// Kill kills every process of the group and returns when no process is left.
func (g Group) Kill(ctx context.Context) error {
	for {
		pids, err := g.Processes()
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, dir := range g.Dirs() {
			// Version 2 can kill a group as a whole, so that nothing in it can fork meanwhile.
			_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) // if the file does not exist, the signals below do the same
		}
		for _, pid := range pids {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill() // it may have exited already
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kill the processes %v of the control group %s: %w", pids, g.Path, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

// slice is the suffix of groups that systemd creates, limits and removes.
const slice = ".slice"

// Remove removes the empty group, the groups below it, and parents that contain no
// other group, from every tree. systemd's slices are left to systemd.
func (g Group) Remove(ctx context.Context) error {
	for _, dir := range g.Dirs() {
		for {
			err := removeTree(dir)
			if err == nil {
				break
			}
			select { // the last process may still be exiting
			case <-ctx.Done():
				return fmt.Errorf("remove the control group %s: %w", dir, err)
			case <-time.After(wait):
			}
		}
		for parent := filepath.Dir(g.Path); parent != "." && filepath.Ext(parent) != slice; parent = filepath.Dir(parent) {
			dir = filepath.Dir(dir)
			os.Remove(dir) // fails, as it should, while it contains another group
		}
	}
	return nil
}

func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
