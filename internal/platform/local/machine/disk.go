package machine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/local/site"
)

// A machine's disk is a sparse file with a file system, which the machine mounts in its own mount
// namespace: when the machine's last process exits, the mount and its loop device disappear. The
// size of the file is the reserved size; blocks that the machine frees are returned to the host.
//
// The file system has no journal and no barriers: a machine whose host crashed is recreated, and
// when a machine is killed the kernel unmounts the disk as usual.
const (
	diskFile  = "disk.img"
	diskMount = "disk" // mounted in the machine's namespace only; empty on the host
)

// Limits of the default disk size in GiB: powers of two from minDisk to maxDisk, so that
// machines created one after another mostly have the same size.
const (
	minDisk = 2
	maxDisk = 16
	// diskShare is the divisor of the free space that gives a machine's share: 1/8.
	diskShare = 8
	gib       = 1 << 30
	// hostDisk is the space, in bytes, that is never given to machines.
	hostDisk = 4 * gib
)

// diskSize returns the size of a new disk in GiB, given the bytes left that are free
// and not reserved. If wished is 0 the host chooses, and at least the given size.
func diskSize(wished, least int, left int64) (int, error) {
	size := wished
	if size == 0 {
		size = max(minDisk, least)
		for size < maxDisk && int64(2*size)*gib <= left/diskShare {
			size *= 2
		}
	}
	if int64(size)*gib <= left {
		return size, nil
	}
	return 0, fault.Wrap(fault.Quota, fmt.Errorf("a disk of %d GiB does not fit on this host: %s", size, freeText(left)), smallerRemedy(least))
}

// freeText describes the space available, given the bytes left that are not reserved; smaller
// describes the remedy if that is too little.
func freeText(left int64) string {
	return fmt.Sprintf("%.1f GiB are free, not counting %d GiB for the host itself and what is reserved for other machines", float64(max(left, 0))/gib, hostDisk/gib)
}

func smallerRemedy(least int) string {
	return fmt.Sprintf("free space, or lower spec.rootVolumeSize of the instance group (kops edit instancegroup), to %d at least", max(minDisk, least))
}

// Disks returns how many more disks of a size in GiB fit in the root's file system; 0 means the
// least size that the host chooses. why describes the limit, and remedy how to raise it.
func Disks(root string, size, least int) (n int, why, remedy string, err error) {
	left, err := AvailableDisk(root)
	if err != nil {
		return 0, "", "", err
	}
	size = cmp.Or(size, max(minDisk, least))
	return int(max(left, 0) / (int64(size) * gib)), fmt.Sprintf("each needs a disk of at least %d GiB, and %s", size, freeText(left)), smallerRemedy(least), nil
}

// AvailableDisk returns the space of a root's file system, in bytes, that may be reserved for
// new machines; it is negative if other files of the host have taken reserved space.
func AvailableDisk(root string) (int64, error) {
	left, err := freeSpace(root)
	if err != nil {
		return 0, fmt.Errorf("look for free space in %s: %w", root, err)
	}
	left -= hostDisk
	sites, err := site.Sites(root)
	if err != nil {
		return 0, err
	}
	for _, s := range sites {
		names, err := site.List(s.Path(site.Machines))
		if err != nil {
			return 0, err
		}
		for _, n := range names {
			info, err := os.Stat(s.Path(site.Machines, n, diskFile))
			if err == nil {
				left -= max(info.Size()-diskUsage(info), 0)
			} else if !errors.Is(err, fs.ErrNotExist) { // a machine of an earlier kops has none
				return 0, err
			}
		}
	}
	return left, nil
}

// makeDisk creates a machine's disk. Clusters of one root take turns, so that no space is reserved
// twice.
func (h Host) makeDisk(ctx context.Context, dir string, wished, least int) error {
	unlock, err := h.LockRoot(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	left, err := AvailableDisk(h.Root)
	if err != nil {
		return err
	}
	size, err := diskSize(wished, least, left)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, diskFile)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(file, int64(size)*gib); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=1,nodiscard", file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("create its disk: mkfs.ext4: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// diskOptions are the mount options of a disk.
const diskOptions = "loop,discard,nobarrier,noinit_itable"

// releaseTime is how long the kernel may take to free the disk of a machine that has ended.
const releaseTime = 5 * time.Second

// releaseDisk waits until no loop device uses the disk of a machine whose processes are gone. A
// user who has entered the machine from outside keeps its disk, and the space that it takes, until
// they leave: releaseDisk does not wait for that.
func (h Host) releaseDisk(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	for {
		devices, err := Loops(h.Path(site.Machines, name, diskFile))
		if err != nil || len(devices) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Loops returns the loop devices that are backed by a file, such as /dev/loop3.
func Loops(file string) ([]string, error) {
	list, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, l := range list {
		if backing, err := os.ReadFile(l); err == nil && strings.TrimSuffix(string(backing), "\n") == file { // otherwise it is free by now
			out = append(out, filepath.Join("/dev", filepath.Base(filepath.Dir(filepath.Dir(l)))))
		}
	}
	return out, nil
}

// readDisk reads a file of an unmounted disk; it returns nil if the file does not exist.
func readDisk(ctx context.Context, disk, file string) ([]byte, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, "debugfs", "-R", "cat "+file, disk)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("debugfs: %w: %s", err, bytes.TrimSpace(errs.Bytes()))
	}
	return out.Bytes(), nil // it succeeds without the file, too
}
