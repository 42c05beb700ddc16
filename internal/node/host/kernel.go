package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"kops.local/kops/internal/engine/resource"
)

// Module is a kernel module that is loaded now and at every boot.
type Module struct {
	Name string `res:"forbid"`
}

// Modules is the kind of Module. A module that cannot be loaded is only a warning: it
// may be built into the kernel, or belong to a container's host.
var Modules = resource.Kind[Module, *Machine]{
	Name: "host_module", API: "commands", Direct: true,
	Key: func(o *Module) string { return o.Name }, List: listModules, Create: loadModule,
	Delete: func(_ context.Context, m *Machine, o *Module) error { return m.remove(o.file()) },
}

func (o *Module) file() string { return "/etc/modules-load.d/kops-" + o.Name + ".conf" }

func listModules(_ context.Context, m *Machine, s resource.Scope) ([]*Module, error) {
	var out []*Module
	for _, name := range s.Names {
		o := &Module{Name: name}
		_, err := os.Stat(m.path(o.file()))
		if err == nil {
			out = append(out, o)
		} else if !isMissing(err) {
			return nil, classifyFileError(err)
		}
	}
	return out, nil
}

// loadModule writes the file last, because the file is what is observed. A container
// often does not have the file of a module that its host has loaded.
func loadModule(ctx context.Context, m *Machine, o *Module) error {
	if m.Command != nil && !m.isLoaded(o.Name) {
		if _, err := m.Command(ctx, "modprobe", o.Name); err != nil {
			m.warn("the kernel module " + o.Name + " was not loaded: " + err.Error())
		}
	}
	return m.write(o.file(), 0o644, owner{}, strings.NewReader(o.Name+"\n"))
}

// isLoaded reports whether the kernel lists a module as present (sysfs(5)), where names are spelled
// with _.
func (m *Machine) isLoaded(name string) bool {
	_, err := os.Stat(m.path("/sys/module/" + strings.ReplaceAll(name, "-", "_")))
	return err == nil
}

// SysctlFile is a file of kernel parameters that are in effect.
type SysctlFile struct {
	Path    string `res:"forbid"`
	Content resource.Content
}

// SysctlFiles is the kind of SysctlFile. A parameter that cannot be set is only a
// warning: the kernel may not have it, or a container may not be allowed to set
// it.
var SysctlFiles = resource.Kind[SysctlFile, *Machine]{
	Name: "host_sysctl", API: "files", Direct: true,
	Key: func(f *SysctlFile) string { return f.Path }, List: listSysctls, Create: applySysctls,
	Update: []resource.Setter[SysctlFile, *Machine]{{Fields: []string{"Content"},
		Set: func(ctx context.Context, m *Machine, _, want *SysctlFile) error { return applySysctls(ctx, m, want) }}},
	Delete: func(_ context.Context, m *Machine, f *SysctlFile) error { return m.remove(f.Path) },
}

func listSysctls(_ context.Context, m *Machine, s resource.Scope) ([]*SysctlFile, error) {
	var out []*SysctlFile
	for _, path := range s.Names {
		sum, err := fileSHA256(m.path(path))
		if isMissing(err) {
			continue
		}
		if err != nil {
			return nil, classifyFileError(err)
		}
		out = append(out, &SysctlFile{Path: path, Content: resource.Digested(sum)})
	}
	return out, nil
}

// applySysctls sets the parameters before it writes the file, so that the existing
// file means that they are in effect.
func applySysctls(_ context.Context, m *Machine, f *SysctlFile) error {
	text, _ := f.Content.Value().Known() // the executor has resolved it
	if m.Command != nil {
		for line := range strings.Lines(text) {
			name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
			if !ok || strings.HasPrefix(name, "#") {
				continue
			}
			if err := m.setParameter(strings.TrimSpace(name), strings.TrimSpace(value)); err != nil {
				m.warn("the kernel parameter " + name + " was not set: " + err.Error())
			}
		}
	}
	return m.write(f.Path, 0o644, owner{}, strings.NewReader(text))
}

// setParameter sets a parameter unless it has the value already. The name may be a pattern.
func (m *Machine) setParameter(name, value string) error {
	pattern := m.path("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	if strings.Contains(name, "/") { // a dot is then part of an interface's name
		pattern = m.path("/proc/sys/" + name)
	}
	files, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	if len(files) == 0 && !strings.ContainsAny(name, "*?[") {
		return errors.New("the kernel does not have it")
	}
	var errs []error
	for _, f := range files {
		if have, err := os.ReadFile(f); err == nil && strings.Join(strings.Fields(string(have)), " ") == strings.Join(strings.Fields(value), " ") {
			continue
		}
		errs = append(errs, os.WriteFile(f, []byte(value), 0))
	}
	return errors.Join(errs...)
}
