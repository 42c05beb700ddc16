package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// gceVersion is the version that kops uses in clusters on GCE. Google does not publish it as a
// module, only its provider; gce/go.mod has the newest published version of that.
const gceVersion = "v35.0.0"

// gce returns the cloud controller manager, and the program that authenticates kubelets to the cloud's registries.
func gce() []source {
	one := func(name, program string) source {
		return source{name: name, version: gceVersion, recipe: ownModule{folder: "gce", program: program}}
	}
	const credentials = "auth-provider-gcp"
	return []source{one(credentials, credentials), one("cloud-provider-gcp", "cloud-controller-manager")}
}

// ownModule is the recipe of a program whose main package is here, in a separate module below the
// folder in which this command is run.
type ownModule struct{ folder, program string }

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
	j.say("%s IS NOT AVAILABLE as a module; it is assembled here from the modules in %s", gceVersion, filepath.Join(o.folder, "go.mod"))
	m := module{programs: []program{{o.program, "./" + o.program}}, stamps: []string{"k8s.io/component-base/version.gitVersion=" + gceVersion}, readonly: true}
	start := time.Now()
	if err := m.build(ctx, at, j.arch, m.programs[0], filepath.Join(bin, o.program)); err != nil {
		return err
	}
	j.say("%s, in %s", o.program, time.Since(start).Round(time.Second))
	return nil
}
