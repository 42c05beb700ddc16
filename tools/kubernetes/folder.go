package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// build makes a source unless it is there already, and returns its folder and
// whether it was made now. It sets a version that had to be found.
func build(ctx context.Context, cache, arch string, s *source, say func(string, ...any)) (dir string, fresh bool, err error) {
	if s.find != nil {
		if s.version, err = s.find(ctx); err != nil {
			return "", false, err
		}
	}
	dir = filepath.Join(cache, fmt.Sprintf("%s-%s-%s", s.name, s.version, arch))
	if complete(dir, s.files()) {
		return dir, false, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", false, err
	}
	unlock, err := lock(ctx, filepath.Join(dir, "lock"), func() { say("another run builds it; waiting") })
	if err != nil {
		return "", false, err
	}
	defer unlock()
	if complete(dir, s.files()) { // by the run that was waited for
		return dir, false, nil
	}
	done := filepath.Join(dir, "done")
	if err := os.RemoveAll(done); err != nil {
		return "", false, err
	}
	say("building")
	if err := s.make(ctx, job{dir: dir, arch: arch, say: say}); err != nil {
		return "", false, err
	}
	return dir, true, os.WriteFile(done, nil, 0o644)
}

// complete tells whether a folder was finished, by a list of files that may have grown since.
func complete(dir string, files []string) bool {
	for _, f := range append([]string{"done"}, files...) {
		if _, err := os.Lstat(filepath.Join(dir, f)); err != nil {
			return false
		}
	}
	return true
}

// lock holds a file until the returned function is called or the process ends.
// It calls wait once if another process holds it.
func lock(ctx context.Context, file string, wait func()) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for waited := false; ; waited = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // which lets go of the lock
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = f.Close() // nothing was written
			return nil, fmt.Errorf("lock %s: %w", file, err)
		}
		if !waited {
			wait()
		}
		select {
		case <-ctx.Done():
			_ = f.Close() // nothing was written
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// writeDigest writes the SHA-256 of a file to another.
func writeDigest(file, to string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	return os.WriteFile(to, []byte(hex.EncodeToString(h.Sum(nil))+"\n"), 0o644)
}
