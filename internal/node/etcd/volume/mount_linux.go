package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"kops.local/kops/internal/engine/fault"
)

// Host mounts volumes on the machine itself.
type Host struct {
	// Root is the root of the machine's files: / on the machine, and another path in a
	// container, which must share the machine's PID namespace. Mounts are made in both.
	Root string
	// Dir is the folder of the mount points on the machine; by default /mnt/disks if
	// that exists, because /mnt itself may then be read-only, otherwise /mnt.
	Dir string
	Log *slog.Logger
}

// Mount implements Mounter. A blank volume is formatted with ext4; one with
// anything but a file system is an error of class fault.Permanent, and is left as
// it is. A file system that is smaller than its volume is grown.
func (h Host) Mount(ctx context.Context, v Volume) (string, error) {
	dir, err := h.mount(ctx, v)
	if err != nil {
		return "", fmt.Errorf("mount volume %s: %w", v.ID, err)
	}
	return dir, nil
}

func (h Host) mount(ctx context.Context, v Volume) (string, error) {
	device, err := h.device(v)
	if err != nil {
		return "", err
	}
	point := filepath.Join(h.points(), cmp.Or(v.Folder, "master-"+v.ID))
	kind, err := h.format(ctx, device)
	if err != nil {
		return "", err
	}
	number, err := deviceNumber(filepath.Join(h.Root, device))
	if err != nil {
		return "", err
	}
	if !h.seesMachine() { // whose mounts are not visible in a container
		machine := mountPlace{device, point, kind, number}
		if err := h.onMachine(func() error { return machine.mount("/proc/1/mountinfo") }); err != nil {
			return "", err
		}
	}
	own := mountPlace{filepath.Join(h.Root, device), filepath.Join(h.Root, point), kind, number}
	// /proc/self refers to the process's first thread, which may not be the one that
	// entered the machine's mount namespace
	if err := own.mount("/proc/thread-self/mountinfo"); err != nil {
		return "", err
	}
	if err := h.onMachine(func() error { return grow(ctx, kind, device, point) }); err != nil {
		h.Log.Warn("cannot grow the file system to the size of its volume", "volume", v.ID, "error", err)
	}
	return own.point, nil
}

// device returns the path on the machine of a volume's device, without symbolic links.
func (h Host) device(v Volume) (string, error) {
	for _, path := range v.Devices {
		found, err := h.resolveLink(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		return found, nil
	}
	return "", fault.New(fault.NotYet, "the machine does not see it at %s yet", strings.Join(v.Devices, " or "))
}

// resolveLink resolves a link to a device, which is relative or starts at the machine's root.
func (h Host) resolveLink(path string) (string, error) {
	to, err := os.Readlink(filepath.Join(h.Root, path))
	if err == nil && !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(path), to)
	}
	if err != nil {
		to = path // not a link; whether it exists is checked next
	}
	info, err := os.Stat(filepath.Join(h.Root, to))
	if err != nil {
		return "", err
	}
	if info.Mode()&(fs.ModeDevice|fs.ModeCharDevice) != fs.ModeDevice {
		return "", fault.New(fault.Permanent, "%s is not a disk", to)
	}
	return to, nil
}

func (h Host) points() string {
	if h.Dir != "" {
		return h.Dir
	}
	if info, err := os.Stat(filepath.Join(h.Root, "/mnt/disks")); err == nil && info.IsDir() {
		return "/mnt/disks"
	}
	return "/mnt"
}

// format returns the kind of file system of a device, and formats the device if it is blank.
func (h Host) format(ctx context.Context, device string) (kind string, err error) {
	disk, err := os.Open(filepath.Join(h.Root, device))
	if err != nil {
		return "", err
	}
	defer disk.Close() // only read
	size, err := disk.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	kind, err = filesystemOf(disk, size)
	if errors.Is(err, errUnknown) {
		return "", fault.Wrap(fault.Permanent, err, fmt.Sprintf("check its content; if you do not need it, overwrite its first and last %d MiB with zeros", margin>>20))
	}
	if err != nil || kind != "" {
		return kind, err
	}
	h.Log.Info("formatting a blank volume", "device", device, "bytes", size)
	// No space is reserved for root: no other user writes there. A half-formatted disk
	// would not be recognized again, so this is not canceled.
	ctx = context.WithoutCancel(ctx)
	return ext4, h.onMachine(func() error { return run(ctx, "mkfs."+ext4, "-q", "-F", "-m", "0", device) })
}

// grow makes a mounted file system as large as its device; it leaves one that already is alone.
func grow(ctx context.Context, kind, device, point string) error {
	if kind == xfs {
		return run(ctx, "xfs_growfs", point)
	}
	return run(ctx, "resize2fs", device)
}

func run(ctx context.Context, program string, args ...string) error {
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// seesMachine reports whether this program sees the machine's own files and mounts.
func (h Host) seesMachine() bool { return filepath.Clean(h.Root) == "/" }

// onMachine calls do where files and mounts are the machine's own.
func (h Host) onMachine(do func() error) error {
	if h.seesMachine() {
		return do()
	}
	done := make(chan error, 1)
	go func() {
		// The thread is never unlocked, and so ends with the function: it now differs from
		// the program's other threads.
		runtime.LockOSThread()
		if err := enterMachine(); err != nil {
			done <- fmt.Errorf("enter the machine's file system: %w", err)
			return
		}
		done <- do()
	}()
	return <-done
}

// enterMachine moves this thread, and the programs that it starts, to the mount
// namespace of the machine's first process (setns(2)).
func enterMachine() error {
	mounts, err := os.Open("/proc/1/ns/mnt")
	if err != nil {
		return err
	}
	defer mounts.Close() // the thread stays in the namespace
	if err := syscall.Unshare(syscall.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	call := uintptr(308) // on amd64
	if runtime.GOARCH == "arm64" {
		call = 268
	}
	if _, _, errno := syscall.RawSyscall(call, mounts.Fd(), syscall.CLONE_NEWNS, 0); errno != 0 {
		return os.NewSyscallError("setns", errno)
	}
	return nil
}

// mountPlace is a device and its mount point.
type mountPlace struct {
	device, point, kind string
	number              string // major:minor of the device
}

// mount mounts the device unless it is already mounted there according to the table of mounts.
// It works on the calling thread, and opens nothing by a path that another thread would resolve
// differently.
func (p mountPlace) mount(table string) error {
	text, err := os.ReadFile(table)
	if err != nil {
		return fmt.Errorf("list the mounts: %w", err)
	}
	switch at := mountedAt(string(text), p.point); at {
	case p.number:
		return nil
	case "":
	default:
		return fault.New(fault.Permanent, "the device %s, not %s, is mounted at %s", at, p.number, p.point)
	}
	if err := os.MkdirAll(p.point, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount(p.device, p.point, p.kind, 0, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", p.device, p.point, err)
	}
	return nil
}

// mountedAt returns major:minor of the last mount at a path; "" for none (proc_pid_mountinfo(5),
// where a space in a path is \040).
func mountedAt(table, point string) string {
	out := ""
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 4 && strings.ReplaceAll(f[4], `\040`, " ") == point {
			out = f[2]
		}
	}
	return out
}

// deviceNumber returns major:minor of a device.
func deviceNumber(path string) (string, error) {
	var s syscall.Stat_t
	if err := syscall.Stat(path, &s); err != nil {
		return "", fmt.Errorf("inspect %s: %w", path, err)
	}
	major := s.Rdev>>8&0xfff | s.Rdev>>32&^0xfff
	minor := s.Rdev&0xff | s.Rdev>>12&^0xff
	return fmt.Sprintf("%d:%d", major, uint32(minor)), nil
}
