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

// build builds a source unless it exists already, and returns its folder and
// whether it was built now. It sets a version that had to be looked up.
func build(ctx context.Context, cache, arch string, s *source, say func(string, ...any)) (dir string, fresh bool, err error) {
	if s.find != nil {
		if s.version, err = s.find(ctx); err != nil {
			return "", false, err
		}
	}
	dir = filepath.Join(cache, fmt.Sprintf("%s-%s-%s", s.name, s.version, arch))
	if isComplete(dir, s.files()) {
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
	if isComplete(dir, s.files()) { // by the run that held the lock
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

// isComplete reports whether a folder is complete, given a list of files that may have grown since.
func isComplete(dir string, files []string) bool {
	for _, f := range append([]string{"done"}, files...) {
		if _, err := os.Lstat(filepath.Join(dir, f)); err != nil {
			return false
		}
	}
	return true
}

// lock holds a file lock until the returned function is called or the process exits.
// It calls wait once if another process holds it.
func lock(ctx context.Context, file string, wait func()) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for waited := false; ; waited = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // which releases the lock
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
