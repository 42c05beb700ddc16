package machine

import (
	"io/fs"
	"syscall"
)

// freeSpace is how many bytes a folder's file system has for anybody.
func freeSpace(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// occupied is how many bytes of its disk a file has.
func occupied(info fs.FileInfo) int64 {
	return info.Sys().(*syscall.Stat_t).Blocks * 512 // its unit, whatever the file system's
}
