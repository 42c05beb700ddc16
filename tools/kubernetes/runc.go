package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// runc is the only program that needs C: it joins namespaces before Go's threads
// start. It is statically linked, so that it runs on every Linux.
//
// Its build tags are the tags of the upstream static release. Without the tag seccomp, which needs
// libseccomp, no pod starts: all pods of a cluster have a profile.
type runc struct{ version string }

func (r runc) module() module {
	const at = "github.com/opencontainers/runc"
	return module{path: at, version: r.version, programs: []program{{"runc", at}},
		tags: []string{"urfave_cli_no_docs", "netgo", "osusergo"}, link: "-linkmode external -extldflags -static"}
}

func (r runc) files() []string { return modules{r.module()}.files() }

func (r runc) make(ctx context.Context, j job) error {
	cc, err := compiler(j.arch)
	if err != nil {
		return err
	}
	m := r.module()
	m.env = []string{"CGO_ENABLED=1", "CC=" + cc}
	if !links(ctx, cc, "int main(void) { return 0; }") {
		return fmt.Errorf("%s cannot build static programs; install the static C library, such as the package libc6-dev", cc)
	}
	env, err := seccomp(ctx, j, cc)
	if err != nil {
		return fmt.Errorf("find libseccomp: %w; install libseccomp-dev", err)
	}
	m.tags, m.env = append(m.tags, "seccomp"), append(m.env, env...)
	return m.make(ctx, j)
}

// compiler returns the C compiler for an architecture.
func compiler(arch string) (string, error) {
	if cc := os.Getenv("CC"); cc != "" {
		return cc, nil
	}
	name, remedy := "gcc", "install gcc and libc6-dev, or set CC"
	if arch != runtime.GOARCH {
		prefix, known := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
		if !known {
			return "", fmt.Errorf("runc needs a C compiler for %s; set CC to one", arch)
		}
		name = prefix + "-linux-gnu-gcc"
		remedy = "install it (package gcc-" + prefix + "-linux-gnu), or set CC"
	}
	if _, err := exec.LookPath(name); err != nil {
		return "", fmt.Errorf("runc needs the C compiler %s, which is not installed; %s", name, remedy)
	}
	return name, nil
}

// seccomp ensures that libseccomp is available, the host's own or one from its packages, and
// returns the environment variables that tell the go tool where it is.
func seccomp(ctx context.Context, j job, cc string) ([]string, error) {
	const test = "#include <seccomp.h>\nint main(void) { return seccomp_init(0) != 0; }"
	if links(ctx, cc, test, "-lseccomp") {
		return []string{"PKG_CONFIG=true", "CGO_LDFLAGS=-lseccomp"}, nil
	}
	root := filepath.Join(j.dir, "libseccomp")
	if err := unpackPackages(ctx, j, root, "libseccomp-dev"); err != nil {
		return nil, err
	}
	libraries, err := filepath.Glob(filepath.Join(root, "usr/lib/*/libseccomp.a"))
	if err != nil || len(libraries) != 1 {
		return nil, errors.Join(err, fmt.Errorf("the package libseccomp-dev contains %d static libraries, not 1", len(libraries)))
	}
	include, library := "-I"+filepath.Join(root, "usr/include"), "-L"+filepath.Dir(libraries[0])
	if !links(ctx, cc, test, include, library, "-lseccomp") {
		return nil, errors.New("the package libseccomp-dev does not link statically")
	}
	// The library's pkg-config file names the folders of an installed package, so
	// pkg-config is replaced with `true`.
	return []string{"PKG_CONFIG=true", "CGO_CFLAGS=" + include, "CGO_LDFLAGS=" + library + " -lseccomp"}, nil
}

// links reports whether a C program can be compiled and linked statically.
func links(ctx context.Context, cc, code string, args ...string) bool {
	dir, err := os.MkdirTemp("", "kubernetes-cc-")
	if err != nil {
		return false
	}
	defer os.RemoveAll(dir) //nolint:errcheck // no longer needed
	file := filepath.Join(dir, "main.c")
	if err := os.WriteFile(file, []byte(code+"\n"), 0o600); err != nil {
		return false
	}
	_, err = command(ctx, dir, nil, cc, append([]string{"-static", "-o", "main", file}, args...)...)
	return err == nil
}
