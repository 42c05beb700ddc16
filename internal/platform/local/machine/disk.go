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
// namespace: with the machine's last process the mount and its loop device disappear. The size of
// the file is the promised size; blocks that the machine frees go back to the host.
//
// The file system has no journal and no barriers: a machine whose host crashed is recreated, and
// when a machine is killed the kernel unmounts the disk as usual.
const (
	diskFile  = "disk.img"
	diskMount = "disk" // what of it the host sees is in the machine's namespace only
)

// Sizes of disks in GiB, if none is wished: powers of two from leastDisk to mostDisk, so that
// machines that are made one after another are mostly alike.
const (
	leastDisk = 2
	mostDisk  = 16
	// diskShare is the part of the free space that a machine gets: 1/8.
	diskShare = 8
	gib       = 1 << 30
	// hostDisk is the space that no machine is promised, in bytes.
	hostDisk = 4 * gib
)

// diskSize is the size of a new disk in GiB, where left bytes are free and promised to
// nobody. wished is 0 where the host is to say.
func diskSize(wished int, left int64) (int, error) {
	size := wished
	if size == 0 {
		size = leastDisk
		for size < mostDisk && int64(2*size)*gib <= left/diskShare {
			size *= 2
		}
	}
	if int64(size)*gib <= left {
		return size, nil
	}
	return 0, fault.Wrap(fault.Quota, fmt.Errorf("a disk of %d GiB does not fit on this host: %s", size, free(left)), smaller())
}

// free says how much space there is, where left bytes are promised to nobody, and smaller
// what helps where that is too little.
func free(left int64) string {
	return fmt.Sprintf("%.1f GiB are free, besides %d GiB for the host itself and what other machines were promised", float64(max(left, 0))/gib, hostDisk/gib)
}

func smaller() string {
	return fmt.Sprintf("free space, or write fewer GiB, %d at least, as spec.rootVolumeSize of the instance group: kops edit instancegroup", leastDisk)
}

// Disks is how many more disks of a size in GiB the root's file system has room for; 0
// stands for the least that the host chooses. Why says what bounds it, and remedy what
// gives more.
func Disks(root string, size int) (n int, why, remedy string, err error) {
	left, err := DiskLeft(root)
	if err != nil {
		return 0, "", "", err
	}
	size = cmp.Or(size, leastDisk)
	return int(max(left, 0) / (int64(size) * gib)), fmt.Sprintf("each has a disk of %d GiB at least, and %s", size, free(left)), smaller(), nil
}

// DiskLeft is the space of a root's file system, in bytes, that may be promised to new
// machines; it is less than 0 where other files of the host have taken what was promised.
func DiskLeft(root string) (int64, error) {
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
				left -= max(info.Size()-occupied(info), 0)
			} else if !errors.Is(err, fs.ErrNotExist) { // a machine of an earlier kops has none
				return 0, err
			}
		}
	}
	return left, nil
}

// makeDisk makes a machine's disk. Clusters of one root do so one after another, so that no space
// is promised twice.
func (h Host) makeDisk(ctx context.Context, dir string, wished int) error {
	unlock, err := h.LockRoot(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	left, err := DiskLeft(h.Root)
	if err != nil {
		return err
	}
	size, err := diskSize(wished, left)
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
		return fmt.Errorf("make its disk: mkfs.ext4: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// diskOptions are the mount options of a disk.
const diskOptions = "loop,discard,nobarrier,noinit_itable"

// releaseTime is how long the kernel may take to free the disk of a machine that has ended.
const releaseTime = 5 * time.Second

// releaseDisk waits until no loop device has the disk of a machine whose processes are gone. A
// user who has entered the machine from outside keeps its disk, and the space that it takes, until
// they leave: nobody waits for that.
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

// Loops returns the loop devices that have a file, such as /dev/loop3.
func Loops(file string) ([]string, error) {
	list, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, l := range list {
		if backing, err := os.ReadFile(l); err == nil && strings.TrimSuffix(string(backing), "\n") == file { // else it is free by now
			out = append(out, filepath.Join("/dev", filepath.Base(filepath.Dir(filepath.Dir(l)))))
		}
	}
	return out, nil
}

// readDisk reads a file of a disk that is not mounted; one that is not there is nil.
func readDisk(ctx context.Context, disk, file string) ([]byte, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, "debugfs", "-R", "cat "+file, disk)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("debugfs: %w: %s", err, bytes.TrimSpace(errs.Bytes()))
	}
	return out.Bytes(), nil // it ends well without the file too
}
