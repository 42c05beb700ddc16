package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ownModule is the recipe of a program whose main package is here, in a separate module below the
// folder in which this command is run. It stands in for a version that is not published as a module.
type ownModule struct{ folder, program, version string }

func (o ownModule) files() []string {
	return []string{"bin/" + o.program, "bin/" + o.program + ".sha256"}
}

func (o ownModule) make(ctx context.Context, j job) error {
	at, err := filepath.Abs(o.folder)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(at, "go.mod")); err != nil {
		return fmt.Errorf("%w; run this command in its own folder", err)
	}
	bin := filepath.Join(j.dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	j.say("%s IS NOT AVAILABLE as a module; it is assembled here from the modules in %s", o.version, filepath.Join(o.folder, "go.mod"))
	// Unstamped, it knows Kubernetes' version, on which its feature gates depend.
	m := module{programs: []program{{o.program, "./" + o.program}}, readonly: true}
	start := time.Now()
	if err := m.build(ctx, at, j.arch, m.programs[0], filepath.Join(bin, o.program)); err != nil {
		return err
	}
	j.say("%s, in %s", o.program, time.Since(start).Round(time.Second))
	return nil
}
