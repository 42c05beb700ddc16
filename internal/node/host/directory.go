package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// Directory is a folder. Missing parent folders are created with mode 0755.
type Directory struct {
	Path string `res:"forbid"`
	// Mode is four octal digits, such as 0755.
	Mode  string
	Owner int
	Group int
}

// Directories is the kind of Directory. Only an empty one can be deleted.
var Directories = resource.Kind[Directory, *Machine]{
	Name: "host_directory", API: "files", Direct: true,
	Key: func(d *Directory) string { return d.Path }, List: listDirectories, Create: makeDirectory,
	Update: []resource.Setter[Directory, *Machine]{{Fields: []string{"Mode", "Owner", "Group"},
		Set: func(ctx context.Context, m *Machine, _, want *Directory) error { return makeDirectory(ctx, m, want) }}},
	Delete: removeDirectory,
}

func listDirectories(_ context.Context, m *Machine, s resource.Scope) ([]*Directory, error) {
	var out []*Directory
	for _, path := range s.Names {
		info, err := os.Stat(m.path(path))
		if isMissing(err) || err == nil && !info.IsDir() {
			continue
		}
		if err != nil {
			return nil, classifyFileError(err)
		}
		o := m.ownerOf(path, info)
		out = append(out, &Directory{Path: path, Mode: modeText(info.Mode()), Owner: o.user, Group: o.group})
	}
	return out, nil
}

// makeDirectory creates the folder with the wanted mode, also if it was created meanwhile.
func makeDirectory(_ context.Context, m *Machine, d *Directory) error {
	perm, err := parseMode(d.Mode)
	if err != nil {
		return err
	}
	at := m.path(d.Path)
	if err := os.MkdirAll(at, perm|0o700); err != nil {
		return classifyFileError(err)
	}
	return classifyFileError(errors.Join(os.Chmod(at, perm), m.setOwner(at, d.Path, owner{d.Owner, d.Group})))
}

func removeDirectory(_ context.Context, m *Machine, d *Directory) error {
	err := os.Remove(m.path(d.Path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ENOTEMPTY):
		return fault.Wrap(fault.Permanent, err, "the folder holds files that nodeup did not make; move them elsewhere")
	}
	return classifyFileError(err)
}
