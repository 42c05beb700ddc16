package host

import (
	"context"
	"os"
	"strings"

	"kops.local/kops/internal/engine/resource"
)

// File is a file whose content is known in advance.
type File struct {
	Path    string `res:"forbid"`
	Content resource.Content
	// Mode is four octal digits, such as 0644.
	Mode string
	// Owner and Group are numeric IDs.
	Owner int
	Group int
}

// Files is the kind of File.
var Files = resource.Kind[File, *Machine]{
	Name: "host_file", API: "files", Direct: true,
	Key: func(f *File) string { return f.Path }, List: listFiles, Create: writeFile,
	Update: []resource.Setter[File, *Machine]{{Fields: []string{"Content", "Mode", "Owner", "Group"}, Set: rewriteFile}},
	Delete: func(_ context.Context, m *Machine, f *File) error { return m.remove(f.Path) },
}

func listFiles(_ context.Context, m *Machine, s resource.Scope) ([]*File, error) {
	var out []*File
	for _, path := range s.Names {
		info, err := os.Lstat(m.path(path))
		if isMissing(err) {
			continue
		}
		if err != nil {
			return nil, classifyFileError(err)
		}
		o := m.ownerOf(path, info)
		f := &File{Path: path, Mode: modeText(info.Mode()), Owner: o.user, Group: o.group, Content: resource.Digested("no-file")}
		if info.Mode().IsRegular() { // anything else is replaced by a file
			sum, err := fileSHA256(m.path(path))
			if err != nil {
				return nil, classifyFileError(err)
			}
			f.Content = resource.Digested(sum)
		}
		out = append(out, f)
	}
	return out, nil
}

func writeFile(_ context.Context, m *Machine, f *File) error {
	perm, err := parseMode(f.Mode)
	if err != nil {
		return err
	}
	text, _ := f.Content.Value().Known() // the executor has resolved it
	return m.write(f.Path, perm, owner{f.Owner, f.Group}, strings.NewReader(text))
}

func rewriteFile(ctx context.Context, m *Machine, _, want *File) error {
	var after func(context.Context)
	if m.OnRewrite != nil {
		after = m.OnRewrite(want.Path)
	}
	err := writeFile(ctx, m, want)
	if err == nil && after != nil {
		after(ctx)
	}
	return err
}
