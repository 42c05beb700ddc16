// Package ground contains what machines of the local cloud require of their host:
// Linux, root, a few programs; and the kernel settings that kubelet changes
// host-wide, which are recorded and restored.
//
// It must not know what its sites are, nor their machines.
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

// requirement is a requirement of the host.
type requirement struct {
	program, file string // any one of them
	pkg           string // Debian's package
}

// Nft is what rehearsals require besides: it checks the addresses of their machines.
func Nft() requirement { return requirement{program: "nft", pkg: "nftables"} }

func requirements() []requirement {
	return []requirement{
		{program: "systemd-nspawn", pkg: "systemd-container"},
		{program: "debootstrap", pkg: "debootstrap"},
		{file: "/usr/share/keyrings/debian-archive-keyring.gpg", pkg: "debian-archive-keyring"},
		{program: "nsenter", pkg: "util-linux"},
		{program: "iptables", pkg: "iptables"},
		{program: "mkfs.ext4", pkg: "e2fsprogs"},
		{program: "debugfs", pkg: "e2fsprogs"},
	}
}

// Host is what Check examines.
type Host struct {
	OS       string // as in runtime.GOOS
	UID      int
	LookPath func(program string) (string, error)
	Stat     func(file string) (os.FileInfo, error)
}

// LocalHost returns the host on which the program runs.
func LocalHost() Host {
	return Host{runtime.GOOS, os.Geteuid(), exec.LookPath, os.Stat}
}

// RunFolder is where the host's settings from before its first cluster are recorded.
const RunFolder = "/run/kops-local"

// CheckWithCache is Check on this host for a program that keeps images in a folder, or in none if it
// is empty.
func CheckWithCache(folder string) error {
	if folder == "" {
		return fault.Wrap(fault.Permanent, errors.New("clusters on this host need a cache folder for images, but neither HOME nor XDG_CACHE_HOME is set"),
			"set HOME to the user's home folder, as sudo --set-home does")
	}
	return Check(LocalHost())
}

// Check reports why machines cannot be created here, with the command that fixes it.
func Check(h Host, more ...requirement) error {
	if h.OS != "linux" {
		return fault.Wrap(fault.Permanent, fmt.Errorf("the machines of the local cloud are Linux containers, but this host runs %s", h.OS),
			"run kops on a Linux host, or in a Linux virtual machine")
	}
	if h.UID != 0 {
		return fault.Wrap(fault.Denied, errors.New("the local cloud needs root, to create network interfaces, mounts and control groups"),
			"run the command again with: sudo --preserve-env")
	}
	var what, packages []string
	for _, n := range append(requirements(), more...) {
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
		remedy = "install it with the package manager of this host; its Debian packages are " + strings.Join(packages, ", ")
	}
	return fault.Wrap(fault.Permanent, fmt.Errorf("this host lacks what the local cloud needs: %s", strings.Join(what, ", ")), remedy)
}

// loopControl is the device that allocates loop devices.
const loopControl = "/dev/loop-control"

func checkLoop(h Host) error {
	if _, err := h.Stat(loopControl); err == nil {
		return nil
	}
	return fault.Wrap(fault.Permanent, fmt.Errorf("the local cloud needs loop devices, for the disks of its machines, but this host has no %s", loopControl),
		"run: modprobe loop; if kops runs in a container, the container needs access to the device")
}

// sysctls returns the host-wide settings that kubelet (protectKernelDefaults) and the node agent
// change on a machine, and that a container shares with its host. They are paths below /proc/sys.
// Settings of a network namespace are not included: each machine has its own.
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

// minimumSysctls returns settings that many machines on one host need higher than one does,
// with their minimum values: the programs on each watch files.
func minimumSysctls() map[string]int {
	return map[string]int{"fs/inotify/max_user_instances": 8192, "fs/inotify/max_user_watches": 524288}
}

// RaiseSysctls raises the settings that are too low for many machines; root is as in ReadSysctls.
func RaiseSysctls(root string) error {
	now := ReadSysctls(root)
	for name, least := range minimumSysctls() {
		if have, err := strconv.Atoi(now[name]); err != nil || have >= least {
			continue // this kernel has no such setting, or it is high enough
		}
		if err := SetSysctl(root, name, strconv.Itoa(least)); err != nil {
			return err
		}
	}
	return nil
}

// ReadSysctls returns the current values, by path below root, which is /proc/sys.
// Settings that this kernel does not have are omitted.
func ReadSysctls(root string) map[string]string {
	out := map[string]string{}
	for _, name := range sysctls() {
		if data, err := os.ReadFile(filepath.Join(root, name)); err == nil {
			out[name] = strings.TrimSpace(string(data))
		}
	}
	return out
}

// RestoreSysctls restores those values that have changed.
func RestoreSysctls(root string, was map[string]string) error {
	now := ReadSysctls(root)
	var errs []error
	for _, name := range sysctls() { // only settings that kops itself records are written
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
