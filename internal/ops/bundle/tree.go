package bundle

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// tree is a set of files to be packed, by path without a leading slash.
type tree map[string]entry

// entry is a folder, a link, a text, or a local file.
type entry struct {
	mode fs.FileMode // type and permissions
	link string      // target of a symbolic link
	text string
	from *input // the file
}

// baseFiles returns the files that every image has in addition to its programs: a place for
// temporary files, and the users that programs look up by name.
func baseFiles() tree {
	return tree{
		"tmp":               {mode: fs.ModeDir | fs.ModeSticky | 0o777},
		"etc/passwd":        {mode: 0o644, text: "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n"},
		"etc/group":         {mode: 0o644, text: "root:x:0:\nnobody:x:65534:\n"},
		"etc/nsswitch.conf": {mode: 0o644, text: "hosts: files dns\n"},
	}
}

// program adds an executable file.
func (t tree) program(at string, in *input) {
	t[strings.TrimPrefix(at, "/")] = entry{mode: 0o755, from: in}
}

// folder adds everything below a local folder, replacing existing entries.
func (t tree) folder(root string) error {
	return filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("read %s: %w", root, err)
		}
		at, err := filepath.Rel(root, file)
		if err != nil || at == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return fmt.Errorf("read %s: %w", root, err)
		}
		e := entry{mode: info.Mode()}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			if e.link, err = os.Readlink(file); err != nil {
				return fmt.Errorf("read %s: %w", root, err)
			}
		case info.Mode().IsRegular():
			e.from = &input{path: file, size: info.Size()}
		case !info.IsDir():
			return fmt.Errorf("%s is neither a file, a folder nor a link", file)
		}
		t[filepath.ToSlash(at)] = e
		return nil
	})
}

// tar writes the tree as an archive that depends on nothing but the tree: sorted, without times,
// and owned by root. Parent folders precede files.
func (t tree) tar(w io.Writer) error {
	all := maps.Clone(t)
	for p := range t {
		for d := path.Dir(p); d != "." && d != "/"; d = path.Dir(d) {
			if _, ok := all[d]; !ok {
				all[d] = entry{mode: fs.ModeDir | 0o755}
			}
		}
	}
	archive := tar.NewWriter(w)
	for _, p := range slices.Sorted(maps.Keys(all)) {
		if err := all[p].tar(archive, p); err != nil {
			return err
		}
	}
	return archive.Close()
}

func (e entry) tar(w *tar.Writer, name string) error {
	h := &tar.Header{Name: name, Mode: int64(e.mode.Perm()), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	if e.mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	if e.mode&fs.ModeSetuid != 0 {
		h.Mode |= 0o4000
	}
	switch {
	case e.mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case e.mode&fs.ModeSymlink != 0:
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.link, 0o777
	case e.from != nil:
		h.Typeflag, h.Size = tar.TypeReg, e.from.size
	default:
		h.Typeflag, h.Size = tar.TypeReg, int64(len(e.text))
	}
	if err := w.WriteHeader(h); err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	if e.from != nil {
		return e.from.copy(w)
	}
	if _, err := io.WriteString(w, e.text); err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	return nil
}
