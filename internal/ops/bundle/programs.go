package bundle

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/model/assets"
)

// input is a local file to be packed.
type input struct {
	path string
	size int64
	sum  string // the SHA-256 that was recorded when it was built, or ""
}

// copy writes the file, and fails if it is not the one that was built.
func (i *input) copy(w io.Writer) error {
	f, err := os.Open(i.path)
	if err != nil {
		return fmt.Errorf("read a program: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	sum, err := copySum(w, f)
	if err != nil {
		return fmt.Errorf("copy %s: %w", i.path, err)
	}
	if i.sum != "" && sum != i.sum {
		return fault.Wrap(fault.Permanent, fmt.Errorf("%s has changed since it was built: its SHA-256 is %s, but %s.sha256 says %s",
			i.path, sum, filepath.Base(i.path), i.sum), "build it again, or restore the file")
	}
	return nil
}

// missingPrograms is the error for programs that are in no folder.
type missingPrograms string

func (a missingPrograms) Error() string { return string(a) }

// folders finds built programs.
type folders struct {
	folders []string // folders that contain NAME-VERSION-ARCH folders
	own     string   // for kops' own programs
}

// find returns a program. A set is the name and version of the source it was built from; kops' own
// programs belong to the set "".
func (p folders) find(set, program string, arch download.Arch) (*input, error) {
	var places []string
	if set == "" {
		places = []string{filepath.Join(p.own, "linux-"+string(arch), program), filepath.Join(p.own, program)}
	}
	for _, dir := range p.folders {
		if set != "" {
			places = append(places, filepath.Join(dir, set+"-"+string(arch), "bin", program))
		}
	}
	for _, file := range places {
		info, err := os.Stat(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find a program: %w", err)
		}
		sum, err := writtenSum(file)
		if err == nil {
			err = runsOn(file, arch)
		}
		if err == nil && sum == "" && set != "" {
			err = fault.Wrap(fault.Permanent, fmt.Errorf("%s has no %s.sha256 next to it", file, program), "build it again")
		}
		return &input{file, info.Size(), sum}, err
	}
	if set == "" {
		return nil, missingPrograms(fmt.Sprintf("%s is not in %s", program, p.own))
	}
	return nil, missingPrograms(fmt.Sprintf("%s-%s/bin/%s is not in %s", set, arch, program, p.where()))
}

// all returns every program of a set.
func (p folders) all(set string, arch download.Arch) ([]*input, error) {
	for _, dir := range p.folders {
		sums, err := filepath.Glob(filepath.Join(dir, set+"-"+string(arch), "bin", "*.sha256"))
		if err != nil {
			return nil, fmt.Errorf("find the programs of %s: %w", set, err)
		}
		var out []*input
		for _, s := range sums {
			in, err := p.find(set, strings.TrimSuffix(filepath.Base(s), ".sha256"), arch)
			if err != nil {
				return nil, err
			}
			out = append(out, in)
		}
		if len(out) > 0 {
			return out, nil
		}
	}
	return nil, missingPrograms(fmt.Sprintf("%s-%s/bin is not in %s", set, arch, p.where()))
}

// root returns a folder that is packed unchanged, of the newest version whose build was completed
// and that a pattern such as iptables-* matches.
func (p folders) root(pattern string, arch download.Arch) (string, error) {
	for _, dir := range p.folders {
		done, err := filepath.Glob(filepath.Join(dir, pattern+"-"+string(arch), "done"))
		if err != nil {
			return "", fmt.Errorf("find %s: %w", pattern, err)
		}
		if len(done) > 0 {
			return filepath.Join(filepath.Dir(slices.MaxFunc(done, byVersion)), "rootfs"), nil
		}
	}
	return "", missingPrograms(fmt.Sprintf("%s-%s/rootfs is not in %s", strings.ReplaceAll(pattern, "*", "…"), arch, p.where()))
}

// content returns the description in the folder of a set whose programs are not those of its version,
// or "".
func (p folders) content(set string, arch download.Arch) (string, error) {
	for _, dir := range p.folders {
		text, err := os.ReadFile(filepath.Join(dir, set+"-"+string(arch), "content"))
		if err == nil {
			return strings.TrimSpace(string(text)), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read the description of %s: %w", set, err)
		}
	}
	return "", nil
}

func (p folders) where() string {
	if len(p.folders) == 0 {
		return "any folder: no folder was given"
	}
	return strings.Join(p.folders, ", ")
}

// writtenSum reads the SHA-256 from the file next to a file, or "" if there is none.
func writtenSum(file string) (string, error) {
	text, err := os.ReadFile(file + ".sha256")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the digest of a program: %w", err)
	}
	sum, err := assets.ParseSHA256(text, filepath.Base(file))
	if err != nil {
		return "", fault.Wrap(fault.Permanent, fmt.Errorf("%s.sha256: %w", file, err), "build it again")
	}
	return sum, nil
}

// runsOn rejects programs for another system or processor. Scripts run anywhere.
func runsOn(file string, arch download.Arch) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("read a program: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	start := make([]byte, 2)
	if _, err := io.ReadFull(f, start); err == nil && bytes.Equal(start, []byte("#!")) {
		return nil
	}
	wrong := func(is string) error {
		return fault.Wrap(fault.Permanent, fmt.Errorf("%s is %s, and machines need a program for linux/%s", file, is, arch),
			"build it with GOOS=linux GOARCH="+string(arch)+" and CGO_ENABLED=0")
	}
	e, err := elf.NewFile(f)
	if err != nil {
		return wrong("no program for Linux")
	}
	want := map[download.Arch]elf.Machine{download.AMD64: elf.EM_X86_64, download.ARM64: elf.EM_AARCH64}[arch]
	if e.Machine != want {
		return wrong("for " + e.Machine.String())
	}
	return nil
}
