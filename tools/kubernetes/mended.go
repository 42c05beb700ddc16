package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// mended is the recipe of programs from a module that cannot be built as it was published, because
// some of its requirements are not available. A copy of the module is changed first.
type mended struct {
	module
	// edit is the arguments of go mod edit for the copy, whose tools are dropped, too.
	edit []string
	// added is the text of additional files, by path.
	added map[string]string
	// changed is changes of the text of files.
	changed []change
	// without is import paths of packages that main.go no longer links.
	without []string
}

// change replaces what an expression matches in a file, in a fixed number of places.
type change struct {
	file   string
	match  *regexp.Regexp
	with   string // as in Regexp.ReplaceAll
	places int
}

func (m mended) files() []string { return modules{m.module}.files() }

func (m mended) make(ctx context.Context, j job) error {
	work, bin := filepath.Join(j.dir, "module-"+m.programs[0].name), filepath.Join(j.dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	if err := m.copy(ctx, work); err != nil {
		return err
	}
	for _, p := range m.programs {
		if err := m.buildAndReport(ctx, j, work, p, filepath.Join(bin, p.name)); err != nil {
			return err
		}
	}
	return os.RemoveAll(work)
}

// copy writes the changed module into a folder.
func (m mended) copy(ctx context.Context, work string) error {
	got, err := m.download(ctx)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	if err := os.CopyFS(work, os.DirFS(got.Dir)); err != nil {
		return err
	}
	for name, text := range m.added {
		file := filepath.Join(work, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, c := range m.changed {
		if err := c.apply(work); err != nil {
			return err
		}
	}
	if err := m.unlink(filepath.Join(work, "main.go")); err != nil {
		return err
	}
	drop, err := dropTools(ctx, work)
	if err != nil {
		return err
	}
	edit := slices.Concat(m.edit, drop)
	if len(edit) == 0 {
		return nil
	}
	_, err = golang(ctx, work, nil, append([]string{"mod", "edit"}, edit...)...)
	return err
}

func (c change) apply(work string) error {
	file := filepath.Join(work, c.file)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if n := len(c.match.FindAllIndex(text, -1)); n != c.places {
		return fmt.Errorf("%s: %d places match %s, not %d, so the recipe is for another version", c.file, n, c.match, c.places)
	}
	return os.WriteFile(file, c.match.ReplaceAll(text, []byte(c.with)), 0o644)
}

// unlink removes the blank imports of packages from a file.
func (m mended) unlink(file string) error {
	if len(m.without) == 0 {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, w := range m.without {
		line := "\t_ \"" + w + "\"\n"
		if !strings.Contains(string(text), line) {
			return fmt.Errorf("%s does not link %s, so the recipe is for another version", file, w)
		}
		text = []byte(strings.Replace(string(text), line, "", 1))
	}
	return os.WriteFile(file, text, 0o644)
}

// dropTools returns the arguments of go mod edit that remove all tools of a module.
func dropTools(ctx context.Context, dir string) ([]string, error) {
	out, err := golang(ctx, dir, nil, "mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var f struct{ Tool []struct{ Path string } }
	if err := json.Unmarshal(out, &f); err != nil {
		return nil, fmt.Errorf("read the output of go mod edit: %w", err)
	}
	var args []string
	for _, t := range f.Tool {
		args = append(args, "-droptool="+t.Path)
	}
	return args, nil
}

// buildAndReport builds one program, and reports its size and the time that it took.
func (m module) buildAndReport(ctx context.Context, j job, work string, p program, out string) error {
	start := time.Now()
	if err := m.build(ctx, work, j.arch, p, out); err != nil {
		return err
	}
	info, err := os.Stat(out)
	if err != nil {
		return err
	}
	j.say("%s, %.1f MB, in %s", p.name, float64(info.Size())/1e6, time.Since(start).Round(time.Second))
	return nil
}

// several is the recipe of everything that several recipes create, in the same folder.
type several []recipe

func (s several) files() []string {
	var out []string
	for _, r := range s {
		out = append(out, r.files()...)
	}
	return out
}

func (s several) make(ctx context.Context, j job) error {
	for _, r := range s {
		if err := r.make(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// described is a recipe whose folder also says what it has, for the labels of images: their version
// is the one that clusters ask for, and may not be the one that was built.
type described struct {
	recipe
	content string
}

// contentFile is the file with the description.
const contentFile = "content"

func (d described) files() []string { return append(d.recipe.files(), contentFile) }

func (d described) make(ctx context.Context, j job) error {
	j.say("THE PUBLISHED RELEASE IS NOT AVAILABLE; what is built instead: %s", d.content)
	if err := d.recipe.make(ctx, j); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(j.dir, contentFile), []byte(d.content+"\n"), 0o644)
}
