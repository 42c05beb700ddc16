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

// mainSize bounds a main file that is read, in bytes.
const mainSize = 64 << 20

// writeModule writes the files of a Terraform module, the main file last, and removes
// those that the main file before read from data/ and this one does not. Other files in
// the folder are the user's. It checks that all can be written before it writes any.
func writeModule(dir string, files map[string][]byte) error {
	before, err := confined.Read(dir, render.MainFile, mainSize)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return notWritten(err)
	}
	if err == nil && !render.IsMainFile(before) {
		return notWritten(fmt.Errorf("kops did not write the file %s; move it, or name another folder with --out", filepath.Join(dir, render.MainFile)))
	}
	names := slices.Sorted(maps.Keys(files))
	if err := confined.Check(dir, names...); err != nil {
		return notWritten(err)
	}
	slices.SortStableFunc(names, func(a, b string) int { return last(a) - last(b) })
	for _, name := range names {
		if err := confined.Write(dir, name, files[name], 0o755, 0o644); err != nil { // configuration without secrets
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

func notWritten(err error) error {
	return fmt.Errorf("write the Terraform configuration: %w; nothing was written", err)
}

// last orders the main file after all that it reads.
func last(name string) int {
	if name == render.MainFile {
		return 1
	}
	return 0
}
