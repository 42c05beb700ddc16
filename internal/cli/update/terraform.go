package update

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	render "kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/store/confined"
)

// mainSize limits the size of a main file that is read, in bytes.
const mainSize = 64 << 20

// writeModule writes the files of a Terraform module, the main file last, and removes the files
// that the previous main file read from data/ and the new one does not. Other files in the folder
// are the user's. It checks that all files can be written before it writes any.
func writeModule(dir string, files map[string][]byte) error {
	before, err := confined.Read(dir, render.MainFile, mainSize)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return notWrittenError(err)
	}
	if err == nil && !render.IsMainFile(before) {
		return notWrittenError(fmt.Errorf("kops did not write the file %s; move it, or name another folder with --out", filepath.Join(dir, render.MainFile)))
	}
	names := slices.Sorted(maps.Keys(files))
	if err := confined.Check(dir, names...); err != nil {
		return notWrittenError(err)
	}
	slices.SortStableFunc(names, func(a, b string) int { return mainLast(a) - mainLast(b) })
	for _, name := range names {
		mode := fs.FileMode(0o600) // user data may hold passwords of proxies and mirrors
		if name == render.MainFile {
			mode = 0o644
		}
		if err := confined.Write(dir, name, files[name], 0o755, mode); err != nil {
			return fmt.Errorf("write the Terraform configuration: %w", err)
		}
	}
	for _, name := range render.DataFiles(before) {
		if _, written := files[name]; written {
			continue
		}
		if err := confined.Remove(dir, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a file that Terraform no longer reads: %w", err)
		}
	}
	return nil
}

func notWrittenError(err error) error {
	return fmt.Errorf("write the Terraform configuration: %w; nothing was written", err)
}

// mainLast sorts the main file after all files that it reads.
func mainLast(name string) int {
	if name == render.MainFile {
		return 1
	}
	return 0
}
