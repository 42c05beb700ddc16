//go:build unix

package store

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"kops.local/kops/internal/engine/fault"
)

// lock waits for the advisory lock of an open folder, which is released when the
// folder is closed. On an error the folder is closed, by this function or, if ctx was
// done first, by the goroutine that is still waiting.
func lock(ctx context.Context, dir *os.File) error {
	done := make(chan error, 1)
	go func() {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX)
		for err == syscall.EINTR {
			err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX)
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			dir.Close() // nothing was written through it
			return fault.Wrap(fault.Permanent, fmt.Errorf("lock the folder %s: %w", dir.Name(), err),
				"keep the store on a disk whose file system has locks, or in a bucket")
		}
		return nil
	case <-ctx.Done():
		go func() {
			<-done      //nolint:errcheck // acquired or not, it is no longer needed
			dir.Close() // releases the lock, if it was acquired
		}()
		return ctx.Err()
	}
}

// syncFolder makes the names in a folder durable.
func syncFolder(dir *os.File) error { return dir.Sync() }

// inode distinguishes files that had the same name at different times.
func inode(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Ino)
	}
	return 0
}
