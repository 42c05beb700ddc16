package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"kops.local/kops/internal/engine/fault"
)

// owner is the user and the group of a file, by ID.
type owner struct{ user, group int }

// write replaces a file atomically. The exception is a file on which something is
// mounted, which is overwritten.
func (m *Machine) write(path string, perm fs.FileMode, o owner, content io.Reader) error {
	return m.put(path, perm, o, content, (*os.File).Sync)
}

// install installs a program. The file is not synced, because that is slow: every run checks all
// of its bytes, and replaces a program that was damaged by a crash of the machine.
func (m *Machine) install(path string, content io.Reader) error {
	return m.put(path, 0o755, owner{}, content, func(*os.File) error { return nil })
}

func (m *Machine) put(path string, perm fs.FileMode, o owner, content io.Reader, sync func(*os.File) error) (err error) {
	at := m.path(path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return classifyFileError(err)
	}
	f, err := openDraft(at)
	if err != nil {
		return classifyFileError(err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()           // it may be closed already
			_ = os.Remove(f.Name()) // the first error is the one to report
		}
		err = classifyFileError(err)
	}()
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	// The mode is set after the owner, because a change of owner clears the setuid and setgid bits.
	if err := errors.Join(m.setOwner(f.Name(), path, o), f.Chmod(perm), sync(f), f.Close()); err != nil {
		return err
	}
	err = os.Rename(f.Name(), at)
	if errors.Is(err, syscall.EBUSY) {
		return overwrite(at, f.Name())
	}
	return err
}

// draft returns the path to which a file is written before it replaces the old
// one: always the same, so that the remains of an interrupted run disappear on the
// next. The kubelet ignores names with a leading dot.
func draft(at string) string {
	return filepath.Join(filepath.Dir(at), "."+filepath.Base(at)+".kops-new")
}

func openDraft(at string) (*os.File, error) {
	if err := RemoveAt(draft(at)); err != nil {
		return nil, err
	}
	return os.OpenFile(draft(at), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

// RemoveAt removes a file if it exists.
func RemoveAt(at string) error {
	if err := os.Remove(at); err != nil && !isMissing(err) {
		return err
	}
	return nil
}

// overwrite copies a file over another one that cannot be replaced.
func overwrite(at, from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(from))
}

// ownerAttribute records the wanted owner of a file, where the owner cannot be set.
const ownerAttribute = "user.kops.owner"

// setOwner sets the owner of the file at a place; it will become the file at path. Without Chown the
// owner is remembered, and recorded on the file if the file system supports it.
func (m *Machine) setOwner(at, path string, o owner) error {
	if m.Chown {
		return os.Lchown(at, o.user, o.group)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owners == nil {
		m.owners = map[string]owner{}
	}
	m.owners[path] = o
	_ = syscall.Setxattr(at, ownerAttribute, fmt.Appendf(nil, "%d:%d", o.user, o.group), 0) // the remembered owner is enough for this run
	return nil
}

// ownerOf returns the owner of a file.
func (m *Machine) ownerOf(path string, info fs.FileInfo) owner {
	if m.Chown {
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			return owner{int(s.Uid), int(s.Gid)}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, known := m.owners[path]
	note := make([]byte, 32)
	if n, err := syscall.Getxattr(m.path(path), ownerAttribute, note); err == nil && !known {
		_, _ = fmt.Sscanf(string(note[:n]), "%d:%d", &o.user, &o.group) // a foreign attribute is ignored
	}
	return o
}

// remove removes a file; a missing one is not an error.
func (m *Machine) remove(path string) error {
	return classifyFileError(errors.Join(RemoveAt(draft(m.path(path))), RemoveAt(m.path(path))))
}

// parseMode parses a mode of four octal digits.
func parseMode(text string) (fs.FileMode, error) {
	n, err := strconv.ParseUint(text, 8, 12)
	if err != nil {
		return 0, fmt.Errorf("the mode %q is not an octal number such as 0644", text)
	}
	perm := fs.FileMode(n) & fs.ModePerm
	for bit, special := range specialModes() {
		if n&bit != 0 {
			perm |= special
		}
	}
	return perm, nil
}

// modeText formats a mode as four octal digits.
func modeText(m fs.FileMode) string {
	n := uint64(m.Perm())
	for bit, special := range specialModes() {
		if m&special != 0 {
			n |= bit
		}
	}
	return fmt.Sprintf("%04o", n)
}

// specialModes returns the bits of the first octal digit with their counterparts in Go.
func specialModes() map[uint64]fs.FileMode {
	return map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky}
}

// classifyFileError classifies a file system error, and adds a remedy.
func classifyFileError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.Wrap(fault.Quota, err, "free space on the disk, or give the machine a larger one; then run nodeup again, which continues where it stopped")
	case errors.Is(err, syscall.EROFS):
		return fault.Wrap(fault.Denied, err, "the file system is mounted read-only")
	case errors.Is(err, fs.ErrPermission):
		return fault.Wrap(fault.Denied, err, "run nodeup as root")
	}
	return err
}

// isMissing reports whether an error means that a file, or one of its parent folders, does not exist.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
