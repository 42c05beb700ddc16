// Package ground is what machines of the local cloud ask of the host they stand
// on: a Linux, root, a few programs; and the kernel's settings that kubelet
// changes for all, which are remembered and put back.
//
// It must not know what its sites are, nor of their machines.
package ground

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/internal/engine/fault"
)

// need is something that the host must have.
type need struct {
	program, file string // one of them
	pkg           string // Debian's package
}

func needs() []need {
	return []need{
		{program: "systemd-nspawn", pkg: "systemd-container"},
		{program: "debootstrap", pkg: "debootstrap"},
		{file: "/usr/share/keyrings/debian-archive-keyring.gpg", pkg: "debian-archive-keyring"},
		{program: "nsenter", pkg: "util-linux"},
		{program: "iptables", pkg: "iptables"},
		{program: "mkfs.ext4", pkg: "e2fsprogs"},
		{program: "debugfs", pkg: "e2fsprogs"},
	}
}

// Host is what Check looks at.
type Host struct {
	OS       string // as in runtime.GOOS
	UID      int
	LookPath func(program string) (string, error)
	Stat     func(file string) (os.FileInfo, error)
}

// This is the host that the program runs on.
func This() Host {
	return Host{runtime.GOOS, os.Geteuid(), exec.LookPath, os.Stat}
}

// Check reports why machines cannot be made here, with the command that mends it.
func Check(h Host) error {
	if h.OS != "linux" {
		return fault.Wrap(fault.Permanent, fmt.Errorf("the local cloud makes its machines of Linux containers, and this host runs %s", h.OS),
			"run kops on a Linux host, or in a virtual machine with Linux")
	}
	if h.UID != 0 {
		return fault.Wrap(fault.Denied, errors.New("the local cloud needs root, to make network interfaces, mounts and control groups"),
			"run the command again with: sudo --preserve-env")
	}
	var what, packages []string
	for _, n := range needs() {
		var err error
		if n.program != "" {
			_, err = h.LookPath(n.program)
		} else {
			_, err = h.Stat(n.file)
		}
		if err != nil {
			what, packages = append(what, n.program+n.file), append(packages, n.pkg)
		}
	}
	packages = slices.Compact(packages)
	if len(what) == 0 {
		return checkLoop(h)
	}
	remedy := "run: apt-get install -y " + strings.Join(packages, " ")
	if _, err := h.LookPath("apt-get"); err != nil {
		remedy = "install it with the package manager of this host; Debian's packages of it are called " + strings.Join(packages, ", ")
	}
	return fault.Wrap(fault.Permanent, fmt.Errorf("the local cloud needs what this host lacks: %s", strings.Join(what, ", ")), remedy)
}

// loopControl gives out the devices through which files are mounted.
const loopControl = "/dev/loop-control"

func checkLoop(h Host) error {
	if _, err := h.Stat(loopControl); err == nil {
		return nil
	}
	return fault.Wrap(fault.Permanent, fmt.Errorf("the local cloud needs loop devices, for the disks of its machines, and this host has no %s", loopControl),
		"run: modprobe loop; where kops runs in a container, the container must see the device")
}

// sysctls are the settings of the whole host that kubelet (its protected
// defaults) and the node agent set on a machine, and that a container shares
// with its host. They are paths below /proc/sys. What belongs to a network
// namespace is not among them: each machine has its own.
func sysctls() []string {
	return []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "vm/max_map_count",
		"kernel/panic", "kernel/panic_on_oops", "kernel/softlockup_panic", "kernel/softlockup_all_cpu_backtrace",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "kernel/pid_max",
		"fs/file-max", "fs/nr_open", "fs/inotify/max_user_instances", "fs/inotify/max_user_watches", "fs/aio-max-nr",
		"net/core/rmem_max", "net/core/wmem_max", "net/core/netdev_max_backlog",
		Forwarding,
	}
}

// raised are settings of which many machines on one host need more than one
// does, with their least values: the programs of each watch files.
func raised() map[string]int {
	return map[string]int{"fs/inotify/max_user_instances": 8192, "fs/inotify/max_user_watches": 524288}
}

// RaiseSysctls raises the settings that are too low for many machines; root is as for ReadSysctls.
func RaiseSysctls(root string) error {
	now := ReadSysctls(root)
	for name, least := range raised() {
		if have, err := strconv.Atoi(now[name]); err != nil || have >= least {
			continue // this kernel has no such setting, or enough
		}
		if err := SetSysctl(root, name, strconv.Itoa(least)); err != nil {
			return err
		}
	}
	return nil
}

// ReadSysctls returns the values as they are now, by path below root, which is
// /proc/sys. A setting that this kernel does not have is left out.
func ReadSysctls(root string) map[string]string {
	out := map[string]string{}
	for _, name := range sysctls() {
		if data, err := os.ReadFile(filepath.Join(root, name)); err == nil {
			out[name] = strings.TrimSpace(string(data))
		}
	}
	return out
}

// RestoreSysctls sets those values that are not as they were.
func RestoreSysctls(root string, was map[string]string) error {
	now := ReadSysctls(root)
	var errs []error
	for _, name := range sysctls() { // nothing but what kops itself recorded is written
		value, known := was[name]
		if !known || now[name] == value {
			continue
		}
		if err := SetSysctl(root, name, value); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// SetSysctl sets one value.
func SetSysctl(root, name, value string) error {
	if err := os.WriteFile(filepath.Join(root, name), []byte(value), 0); err != nil {
		return fmt.Errorf("set the kernel's %s to %q: %w", strings.ReplaceAll(name, "/", "."), value, err)
	}
	return nil
}
