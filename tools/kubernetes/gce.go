package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// gceVersion is the version that kops names in clusters on GCE. Google publishes it not as a
// module, but for its provider, of which gce/go.mod has the newest that is published.
const gceVersion = "v35.0.0"

// gce is the cloud controller manager, and what logs kubelets in to the cloud's registries.
func gce() []source {
	one := func(name, program string) source {
		return source{name: name, version: gceVersion, recipe: own{folder: "gce", program: program}}
	}
	const credentials = "auth-provider-gcp"
	return []source{one(credentials, credentials), one("cloud-provider-gcp", "cloud-controller-manager")}
}

// own is the recipe of a program whose main package is here, in a module of its own below the
// folder that this command is run in.
type own struct{ folder, program string }

func (o own) files() []string { return []string{"bin/" + o.program, "bin/" + o.program + ".sha256"} }

func (o own) make(ctx context.Context, j job) error {
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
	j.say("%s CANNOT BE HAD as a module; it is put together here, of what %s names", gceVersion, filepath.Join(o.folder, "go.mod"))
	m := module{programs: []program{{o.program, "./" + o.program}}, stamps: []string{"k8s.io/component-base/version.gitVersion=" + gceVersion}, readonly: true}
	start := time.Now()
	if err := m.build(ctx, at, j.arch, m.programs[0], filepath.Join(bin, o.program)); err != nil {
		return err
	}
	j.say("%s, in %s", o.program, time.Since(start).Round(time.Second))
	return nil
}
