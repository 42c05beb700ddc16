package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// debianRelease returns the code name of the host's release, such as bookworm.
func debianRelease(context.Context) (string, error) {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", fmt.Errorf("%w; %s", err, notDebian)
	}
	return codeName(string(text))
}

func codeName(osRelease string) (string, error) {
	for line := range strings.Lines(osRelease) {
		if name, found := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); found && name != "" {
			return strings.Trim(name, `"'`), nil
		}
	}
	return "", fmt.Errorf("the host's /etc/os-release has no VERSION_CODENAME, so it is not Debian; %s", notDebian)
}

// checkPackages returns an error if the host has no packages for an architecture.
func checkPackages(arch string) error {
	for _, tool := range []string{"apt-get", "apt-cache", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("this host has no %s", tool)
		}
	}
	if arch != runtime.GOARCH {
		return fmt.Errorf("this host has packages for %s, not for %s; build this on such a machine", runtime.GOARCH, arch)
	}
	return nil
}

// unpackPackages creates the folder root from packages of the host's release, as
// known to apt. It installs nothing.
func unpackPackages(ctx context.Context, j job, root string, names ...string) error {
	if err := checkPackages(j.arch); err != nil {
		return fmt.Errorf("the packages %s are needed: %w", strings.Join(names, ", "), err)
	}
	debs := root + "-packages"
	for _, d := range []string{root, debs} {
		if err := os.RemoveAll(d); err != nil {
			return err
		}
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	defer os.RemoveAll(debs) //nolint:errcheck // no longer needed
	if _, err := command(ctx, debs, []string{"LC_ALL=C"}, "apt-get", append([]string{"download", "-q"}, names...)...); err != nil {
		return fmt.Errorf("%w\nif the package lists are missing or old, run `apt-get update`", err)
	}
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if _, err := command(ctx, debs, nil, "dpkg-deb", "-x", f, root); err != nil {
			return err
		}
	}
	return nil
}

// dependencies returns packages and their transitive dependencies.
func dependencies(ctx context.Context, names ...string) ([]string, error) {
	args := []string{"depends", "--recurse"}
	for _, kind := range []string{"recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"} {
		args = append(args, "--no-"+kind)
	}
	out, err := command(ctx, os.TempDir(), []string{"LC_ALL=C"}, "apt-cache", append(args, names...)...)
	if err != nil {
		return nil, err
	}
	return packageNames(out), nil
}

// packageNames parses the output of `apt-cache depends`: a package's name begins its line, its
// dependencies are indented, and <angle brackets> are not real packages.
func packageNames(text []byte) []string {
	var names []string
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		if line := s.Text(); line != "" && !strings.ContainsAny(line[:1], " \t|<") {
			names = append(names, line)
		}
	}
	return names
}
