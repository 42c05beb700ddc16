//go:build unix

package bundle

import (
	"os"
	"syscall"
)

// lock takes the advisory lock of an open folder, which is released when the folder is closed; it
// fails if another process holds it.
func lock(dir *os.File) error {
	for {
		if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != syscall.EINTR {
			return err
		}
	}
}
