package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// PackageSet is a set of the distribution's packages that are installed together. It exists if
// all of them are installed.
type PackageSet struct {
	// Manager is apt or dnf.
	Manager string `res:"forbid"`
	// Names are the packages, sorted, separated by spaces.
	Names string `res:"forbid"`
	// Optional is set if nothing needs the packages: if they cannot be installed, that is a warning.
	Optional bool `res:"writeonly"`
}

// PackageSets is the kind of PackageSet. An installed package is never upgraded.
// In a folder, where no program is run, every package counts as installed.
var PackageSets = resource.Kind[PackageSet, *Machine]{
	Name: "host_packages", API: "packages", Direct: true,
	Key:  func(p *PackageSet) string { return p.Manager + " " + p.Names },
	List: listPackages, Create: installPackages, Delete: removePackages,
}

func listPackages(ctx context.Context, m *Machine, s resource.Scope) ([]*PackageSet, error) {
	var out []*PackageSet
	for _, key := range s.Names {
		p := &PackageSet{}
		p.Manager, p.Names, _ = strings.Cut(key, " ")
		if m.Command != nil {
			all, err := m.arePackagesInstalled(ctx, p)
			if err != nil {
				return nil, err
			}
			if !all {
				continue
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// arePackagesInstalled queries all packages with one command. Both package managers'
// commands fail if one package is unknown. A name may match several packages, and
// apt lists some that are not installed: each line must show an installed package.
func (m *Machine) arePackagesInstalled(ctx context.Context, p *PackageSet) (bool, error) {
	names := strings.Fields(p.Names)
	command, args := "dpkg-query", []string{"--show", "--showformat=${db:Status-Abbrev}\n", "--"}
	if p.Manager == "dnf" {
		command, args = "rpm", []string{"--query", "--queryformat=ii \n", "--whatprovides", "--"}
	}
	text, err := m.Command(ctx, command, append(args, names...)...)
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		return false, nil
	case err != nil:
		return false, err
	}
	n := 0
	for line := range strings.Lines(string(text)) { // the desired state and the actual one (dpkg-query(1))
		if len(line) < 2 || line[1] != 'i' {
			return false, nil
		}
		n++
	}
	return n >= len(names), nil
}

func installPackages(ctx context.Context, m *Machine, p *PackageSet) error {
	err := m.installAll(ctx, p)
	if err != nil && p.Optional && ctx.Err() == nil {
		m.warn("these packages were not installed: " + p.Names + ": " + err.Error())
		return nil
	}
	return err
}

func (m *Machine) installAll(ctx context.Context, p *PackageSet) error {
	names := strings.Fields(p.Names)
	if p.Manager == "dnf" {
		return m.packageCommand(ctx, "dnf", append([]string{"install", "--assumeyes", "--setopt=install_weak_deps=False"}, names...))
	}
	install := append([]string{"DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "--yes", "--no-upgrade", "--no-install-recommends",
		"-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Options::=--force-confold"}, names...)
	if err := m.packageCommand(ctx, "env", install); err == nil {
		return nil
	}
	// A fresh image has no package lists, or old ones.
	if err := m.packageCommand(ctx, "env", []string{"DEBIAN_FRONTEND=noninteractive", "apt-get", "update", "-o", "DPkg::Lock::Timeout=300"}); err != nil {
		return err
	}
	return m.packageCommand(ctx, "env", install)
}

func removePackages(ctx context.Context, m *Machine, p *PackageSet) error {
	names := strings.Fields(p.Names)
	if p.Manager == "dnf" {
		return m.packageCommand(ctx, "dnf", append([]string{"remove", "--assumeyes"}, names...))
	}
	return m.packageCommand(ctx, "env", append([]string{"DEBIAN_FRONTEND=noninteractive", "apt-get", "remove", "--yes"}, names...))
}

func (m *Machine) packageCommand(ctx context.Context, name string, args []string) error {
	if _, err := m.Command(ctx, name, args...); err != nil {
		return fault.Wrap(fault.NotYet, err, "make the distribution's package mirrors reachable from the machine, or use an image that holds these packages")
	}
	return nil
}

// Run is a Machine.Command that runs programs on this machine. If one fails, the
// error includes its standard error.
func Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	out, err := cmd.Output()
	if err == nil {
		return out, nil
	}
	stderr := ""
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		stderr = ": " + lastLines(string(failed.Stderr))
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		err = fault.Wrap(fault.Permanent, err, "use an image of a supported distribution that has this program")
	}
	return out, fmt.Errorf("%s: %w%s", name, err, stderr)
}

// lastLines shortens the output of a program.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-4):], " | ")
}
