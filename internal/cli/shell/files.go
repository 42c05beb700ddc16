package shell

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/engine/redact"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/store/confined"
)

// Decode reads the objects in files, and reports everything that is wrong in any of them; warnings
// are printed. A file may be at an https:// URL, or in a state store.
func (a *App) Decode(ctx context.Context, files []string) ([]api.Object, error) {
	data := map[string][]byte{}
	for _, name := range files {
		text, err := a.readObjects(ctx, name)
		if err != nil {
			return nil, err
		}
		data[name] = text
	}
	var out []api.Object
	var wrong diag.List
	for _, name := range slices.Sorted(maps.Keys(data)) {
		objs, warnings, err := compat.Decode(data[name], compat.Options{File: title(name), RequireName: true})
		var findings diag.List
		switch {
		case errors.As(err, &findings):
			wrong = append(wrong, findings...) // with the warnings
		case err != nil:
			return nil, err
		default:
			a.Warn(warnings)
			out = append(out, objs...)
		}
	}
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no objects in %s", strings.Join(titles(files), ", "))
	}
	return out, nil
}

// DecodeOwned reads the objects in files as Decode does. Objects that must belong to a cluster and
// do not specify it belong to the one of --name or the environment, unless the files themselves
// describe a cluster.
func (a *App) DecodeOwned(ctx context.Context, files []string) ([]api.Object, error) {
	objs, err := a.Decode(ctx, files)
	if err != nil {
		return nil, err
	}
	name, err := a.ExplicitName(nil)
	if clusters, _ := kops.Named(objs); err != nil || name == "" || len(clusters) > 0 {
		return objs, err
	}
	for _, o := range objs {
		labels := maps.Clone(o.GetLabels())
		if labels[api.LabelCluster] != "" {
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[api.LabelCluster] = name
		o.SetLabels(labels)
	}
	return objs, nil
}

// titles returns the names of files for people.
func titles(files []string) []string {
	out := slices.Clone(files)
	for i, f := range out {
		out[i] = title(f)
	}
	return out
}

func title(file string) string {
	if file == "-" {
		return "standard input"
	}
	return redact.URLs(file)
}

// Warn prints findings that do not stop a command.
func (a *App) Warn(list diag.List) {
	for _, f := range list {
		a.Notef("warning: %s\n", f)
	}
}

// SuggestPreview prints the commands that preview the effects of changed objects.
func (a *App) SuggestPreview(done ...kops.Written) {
	var clusters []string
	for _, w := range done {
		if w.Changed && !slices.Contains(clusters, w.Cluster) {
			clusters = append(clusters, w.Cluster)
		}
	}
	for i, name := range clusters {
		if i == 0 {
			a.Notef("\nTo see what this changes, run:\n")
		}
		a.Notef("  kops update cluster --name %s\n", name)
	}
}

// ReadFacts reads a facts file.
func (a *App) ReadFacts(ctx context.Context, file string) (*kops.Facts, error) {
	data, err := readFile(ctx, file)
	if err != nil {
		return nil, err
	}
	f, err := kops.ReadFacts(data, a.clientConfig("").Clouds...)
	if err != nil {
		return nil, fmt.Errorf("facts file %s: %w; to write a correct one, run kops update cluster --record-facts", file, err)
	}
	return f, nil
}

// WriteFacts writes a facts file.
func WriteFacts(file string, f *kops.Facts) error {
	data, err := f.Marshal()
	if err != nil {
		return err
	}
	if err := replaceFile(file, data, 0o644); err != nil { // facts contain no secrets
		return fmt.Errorf("write facts: %w", err)
	}
	return nil
}

// WritePlan saves a plan, readable only by its owner.
func WritePlan(file string, p *kops.SavedPlan) error {
	data, err := p.Marshal()
	if err == nil {
		err = replaceFile(file, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("save the plan: %w", err)
	}
	return nil
}

// WriteText writes a text to a file that the user specified.
func WriteText(file, text string) error {
	if err := replaceFile(file, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

// replaceFile writes a file atomically. A device or a pipe, such as /dev/stdout, is written to, and
// not replaced. Any other link is replaced, and not followed: someone else may have made it.
func replaceFile(file string, data []byte, mode os.FileMode) error {
	if info, err := os.Lstat(file); err == nil && !info.Mode().IsRegular() && !info.IsDir() && (info.Mode().Type() != os.ModeSymlink || isStream(file)) {
		return os.WriteFile(file, data, mode)
	}
	draft, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return err
	}
	_, err = draft.Write(data)
	if err == nil {
		err = draft.Sync()
	}
	err = errors.Join(err, draft.Close())
	if err == nil {
		err = os.Chmod(draft.Name(), mode)
	}
	if err == nil {
		err = os.Rename(draft.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(draft.Name()))
	}
	return nil
}

// isStream reports whether a link is the operating system's own link to an open file of this
// process, such as /dev/stdout.
func isStream(link string) bool {
	full, err := filepath.Abs(link)
	dir := filepath.Dir(full)
	return err == nil && (dir == "/dev" || dir == "/dev/fd" || strings.HasPrefix(dir, "/proc/"))
}

// ReadPlan reads a saved plan.
func ReadPlan(ctx context.Context, file string) (*kops.SavedPlan, error) {
	data, err := readFile(ctx, file)
	if err != nil {
		return nil, err
	}
	p, err := kops.ReadPlan(data)
	if err != nil {
		return nil, fmt.Errorf("saved plan %s: %w", file, err)
	}
	return p, nil
}

// WriteFiles writes files below a folder, in the order of their names, and creates the necessary
// folders. The names may be untrusted: a name that leads out of the folder, or through a link, is
// an error before anything is written.
func WriteFiles(dir string, files map[string][]byte, folders, mode os.FileMode) error {
	names := slices.Sorted(maps.Keys(files))
	if err := confined.Check(dir, names...); err != nil {
		return fmt.Errorf("write files: %w; nothing was written", err)
	}
	for _, name := range names {
		if err := confined.Write(dir, name, files[name], folders, mode); err != nil {
			return fmt.Errorf("write files: %w", err)
		}
	}
	return nil
}
