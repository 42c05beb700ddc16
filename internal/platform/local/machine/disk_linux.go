package machine

import (
	"io/fs"
	"syscall"
)

// freeSpace returns the bytes of a folder's file system that are available to unprivileged users.
func freeSpace(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// diskUsage returns how many bytes a file takes on disk.
func diskUsage(info fs.FileInfo) int64 {
	return info.Sys().(*syscall.Stat_t).Blocks * 512 // its unit, regardless of the file system's
}
