package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// instead is the recipe of programs whose version in a cluster may not exist as a
// module; then a nearby version is built instead, and that is reported.
type instead struct{ named, near module }

func (i instead) files() []string { return modules{i.named}.files() }

func (i instead) make(ctx context.Context, j job) error {
	_, err := i.named.download(ctx)
	if err == nil {
		return i.named.make(ctx, j)
	}
	j.say("%s IS NOT AVAILABLE as a module, so %s is built instead: %v", i.named.version, i.near.version, err)
	return i.near.make(ctx, j)
}

// module is a version of a Go module and the programs that are built from it.
type module struct {
	path, version string
	programs      []program
	tags          []string
	// stamps are variables set by the linker, as PACKAGE.NAME=VALUE.
	stamps []string
	// staging means that the module replaces its parts by folders that are not in a module's
	// archive; they are published as modules of version v0.MINOR.PATCH.
	staging bool
	// instead are versions, as "PATH VERSION", of modules that replace the module's requirements.
	instead []string
	// resolvedWith are modules whose dependencies are resolved together with this one's, so that
	// packages that several programs link are compiled once. Their programs are not built.
	resolvedWith []module
	// readonly means that the module is local, and that its go.mod determines the build list.
	readonly bool
	// link is additional linker flags, and env is additional environment of the go tool.
	link string
	env  []string
}

// program is one package main.
type program struct{ name, path string }

// modules is the recipe of programs from Go modules, each of which resolves its
// dependencies independently.
type modules []module

func (ms modules) files() []string {
	var out []string
	for _, m := range ms {
		for _, p := range m.programs {
			out = append(out, "bin/"+p.name, "bin/"+p.name+".sha256")
		}
	}
	return out
}

func (ms modules) make(ctx context.Context, j job) error {
	for _, m := range ms {
		if err := m.make(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

func (m module) make(ctx context.Context, j job) error {
	work := filepath.Join(j.dir, "module-"+m.programs[0].name)
	bin := filepath.Join(j.dir, "bin")
	for _, d := range []string{work, bin} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := m.require(ctx, work); err != nil {
		return err
	}
	for _, p := range m.programs {
		if err := m.buildAndReport(ctx, j, work, p, filepath.Join(bin, p.name)); err != nil {
			return err
		}
	}
	return nil
}

// build builds one program and its digest. A program that may be running is replaced, not overwritten.
func (m module) build(ctx context.Context, work, arch string, p program, out string) error {
	mod := "-mod=mod"
	if m.readonly {
		mod = "-mod=readonly"
	}
	// Debug information, which stripping would remove, is not generated.
	args := []string{"build", mod, "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags", m.ldflags(), "-o", out + ".new"}
	if len(m.tags) > 0 {
		args = append(args, "-tags", strings.Join(m.tags, ","))
	}
	env := append([]string{"GOOS=linux", "GOARCH=" + arch}, m.env...)
	if _, err := golang(ctx, work, env, append(args, p.path)...); err != nil {
		return err
	}
	if err := writeDigest(out+".new", out+".sha256"); err != nil {
		return err
	}
	return os.Rename(out+".new", out)
}

// ldflags returns the flags that strip a program and stamp it.
func (m module) ldflags() string {
	flags := []string{"-s", "-w"}
	for _, s := range m.stamps {
		flags = append(flags, "-X", s)
	}
	if m.link != "" {
		flags = append(flags, m.link)
	}
	return strings.Join(flags, " ")
}

// require writes into dir a module that requires this one, and the modules in resolvedWith.
func (m module) require(ctx context.Context, dir string) error {
	instead := slices.Clone(m.instead)
	all := append([]module{m}, m.resolvedWith...)
	for _, one := range all {
		if !one.staging {
			continue
		}
		replaced, err := one.replacements(ctx)
		if err != nil {
			return err
		}
		for _, r := range replaced {
			instead = append(instead, r+" v0"+strings.TrimPrefix(one.version, "v1"))
		}
	}
	return os.WriteFile(filepath.Join(dir, "go.mod"), []byte(goMod(all, instead)), 0o644)
}

// goMod returns the text of a go.mod that requires other modules.
func goMod(required []module, instead []string) string {
	text := "module build\n\ngo 1.26.0\n"
	for _, m := range required {
		text += fmt.Sprintf("\nrequire %s %s\n", m.path, m.version)
	}
	for _, i := range instead {
		replaced, _, _ := strings.Cut(i, " ")
		text += fmt.Sprintf("\nreplace %s => %s\n", replaced, i)
	}
	return text
}

// replacements lists the modules that the module's own go.mod replaces by folders.
func (m module) replacements(ctx context.Context) ([]string, error) {
	got, err := m.download(ctx)
	if err != nil {
		return nil, err
	}
	out, err := golang(ctx, "", nil, "mod", "edit", "-json", got.GoMod)
	if err != nil {
		return nil, err
	}
	var f struct {
		Replace []struct {
			Old, New struct{ Path, Version string }
		}
	}
	if err := json.Unmarshal(out, &f); err != nil {
		return nil, fmt.Errorf("read the output of go mod edit: %w", err)
	}
	var names []string
	for _, r := range f.Replace {
		if strings.HasPrefix(r.New.Path, "./") {
			names = append(names, r.Old.Path)
		}
	}
	return names, nil
}

// read returns the trimmed text of a file of the module, or otherwise if the module
// has no such file.
func (m module) read(ctx context.Context, name, otherwise string) (string, error) {
	got, err := m.download(ctx)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(got.Dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return otherwise, nil
	}
	return strings.TrimSpace(string(text)), err
}

// downloaded is the location of a module in the go tool's cache.
type downloaded struct{ Dir, GoMod string }

func (m module) download(ctx context.Context) (downloaded, error) {
	var d downloaded
	out, err := golang(ctx, "", nil, "mod", "download", "-json", m.path+"@"+m.version)
	var failed struct{ Error string }
	if err != nil && json.Unmarshal(out, &failed) == nil && failed.Error != "" {
		return d, fmt.Errorf("go mod download: %s", failed.Error)
	}
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(out, &d); err != nil {
		return d, fmt.Errorf("read the output of go mod download: %w", err)
	}
	return d, nil
}

// golang runs the go tool in dir, or outside any module if dir is empty.
func golang(ctx context.Context, dir string, env []string, args ...string) ([]byte, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	return command(ctx, dir, append([]string{"CGO_ENABLED=0", "GOWORK=off"}, env...), "go", args...)
}

// command runs a program; its error contains the error output of the program,
// and its output is returned even on failure.
func command(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.Env = slices.Concat(os.Environ(), env)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		text := complaint(stderr.String()) + string(out[max(0, len(out)-maxOutput):])
		return out, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, strings.TrimSpace(text))
	}
	return out, nil
}

// maxOutput is the length of program output in an error.
const maxOutput = 2000

// complaint returns a program's standard error, without the go tool's progress.
func complaint(stderr string) string {
	var out strings.Builder
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "go: downloading ") {
			out.WriteString(line)
		}
	}
	return out.String()
}
