package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/test/kindtest"
)

func TestPackagesAreInstalledTogether(t *testing.T) {
	m := machine(t)
	installed, lists := 1, false
	var ran []string
	m.Command = func(_ context.Context, name string, args ...string) ([]byte, error) {
		if name == "dpkg-query" {
			return []byte(strings.Repeat("ii \n", installed)), nil
		}
		ran = append(ran, args[2])
		switch {
		case args[2] == "update":
			lists = true
		case !lists:
			return nil, errors.New("chrony has no installation candidate")
		case args[2] == "install":
			installed = 2
		case args[2] == "remove":
			installed = 0
		}
		return nil, nil
	}
	kindtest.Run(t, &host.PackageSets, m, kindtest.Life[host.PackageSet]{OnlyNamed: true, Want: host.PackageSet{Manager: "apt", Names: "chrony iptables"}})
	if got := strings.Join(ran, " "); got != "install update install remove remove" {
		t.Errorf("ran %s", got)
	}
}

// Two packages may provide one name, and a removed package may have left its configuration.
func TestListPackages(t *testing.T) {
	for _, c := range []struct {
		manager, says string
		fails, want   bool
	}{
		{"apt", "ii \nii \n", false, true},
		{"apt", "ii \nhi \n", false, true},
		{"apt", "ii \nrc \n", false, false},
		{"apt", "ii \nii \n", true, false},
		{"dnf", "ii \nii \nii \n", false, true},
		{"dnf", "ii \nii \nno package provides chrony\n", true, false},
	} {
		m := machine(t)
		m.Command = func(ctx context.Context, _ string, _ ...string) ([]byte, error) {
			var err error
			if c.fails {
				_, err = host.Run(ctx, "false")
			}
			return []byte(c.says), err
		}
		have, err := host.PackageSets.List(t.Context(), m, resource.Scope{Names: []string{c.manager + " chrony iptables"}})
		if err != nil || (len(have) == 1) != c.want {
			t.Errorf("%s says %q: %v %+v", c.manager, c.says, err, have)
		}
	}
}

func TestPackagesThatNothingNeeds(t *testing.T) {
	for _, optional := range []bool{false, true} {
		m := machine(t)
		var warned []string
		m.Warn = func(text string) { warned = append(warned, text) }
		m.Command = func(context.Context, string, ...string) ([]byte, error) { return nil, errors.New("excluded") }
		err := host.PackageSets.Create(t.Context(), m, &host.PackageSet{Manager: "dnf", Names: "kernel-modules-extra", Optional: optional})
		if (err == nil) != optional || optional != (strings.Join(warned, "\n") == "these packages were not installed: kernel-modules-extra: excluded") {
			t.Errorf("optional %t: %v, warned %q", optional, err, warned)
		}
	}
}
