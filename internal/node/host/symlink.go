package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"kops.local/kops/internal/engine/resource"
)

// Symlink is a symbolic link.
type Symlink struct {
	Path   string `res:"forbid"`
	Target string
}

// Symlinks is the kind of Symlink.
var Symlinks = resource.Kind[Symlink, *Machine]{
	Name: "host_symlink", API: "files", Direct: true,
	Key: func(l *Symlink) string { return l.Path }, List: listSymlinks, Create: makeSymlink,
	Update: []resource.Setter[Symlink, *Machine]{{Fields: []string{"Target"},
		Set: func(ctx context.Context, m *Machine, _, want *Symlink) error { return makeSymlink(ctx, m, want) }}},
	Delete: func(_ context.Context, m *Machine, l *Symlink) error { return m.remove(l.Path) },
}

func listSymlinks(_ context.Context, m *Machine, s resource.Scope) ([]*Symlink, error) {
	var out []*Symlink
	for _, path := range s.Names {
		info, err := os.Lstat(m.path(path))
		if isMissing(err) || err == nil && info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		if err != nil {
			return nil, classifyFileError(err)
		}
		target, err := os.Readlink(m.path(path))
		if err != nil {
			return nil, classifyFileError(err)
		}
		out = append(out, &Symlink{Path: path, Target: target})
	}
	return out, nil
}

// makeSymlink creates or replaces a link atomically. It does not replace a folder.
func makeSymlink(_ context.Context, m *Machine, l *Symlink) error {
	at := m.path(l.Path)
	fresh := draft(at)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), RemoveAt(fresh)); err != nil {
		return classifyFileError(err)
	}
	if err := os.Symlink(l.Target, fresh); err != nil {
		return classifyFileError(err)
	}
	return classifyFileError(os.Rename(fresh, at))
}
