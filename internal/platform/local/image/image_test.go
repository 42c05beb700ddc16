package image

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
)

func TestDigestIsOfWhatIsMade(t *testing.T) {
	plain := Recipe{}.Digest()
	for name, same := range map[string]Recipe{
		"another mirror":             {Mirror: "http://mirror.example.com/debian"},
		"the default release":        {Release: DefaultRelease},
		"packages that are in it":    {Packages: []string{"kmod", "systemd"}},
		"the same package two times": {Packages: []string{"kmod", "kmod"}},
	} {
		if same.Digest() != plain {
			t.Errorf("%s makes another image", name)
		}
	}
	for name, other := range map[string]Recipe{"another release": {Release: "trixie"}, "another package": {Packages: []string{"openssh-server"}}} {
		if other.Digest() == plain {
			t.Errorf("%s makes the same image", name)
		}
	}
}

// put replaces debootstrap with a shell script that comes first in PATH.
func put(t *testing.T, script string) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("CANNOT RUN: an image can be built by root only")
		}
		t.Skip("SKIPPED, NOTHING WAS TESTED: an image can be built by root only")
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "debootstrap"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}

func TestABuildThatFailsLeavesNothing(t *testing.T) {
	put(t, "mkdir -p \"$4/etc\"; echo 'I: Retrieving'; echo 'E: Failed getting release file' >&2; exit 1\n")
	cache := t.TempDir()
	_, err := Recipe{Mirror: "http://mirror.example.com"}.Ensure(t.Context(), cache, nil)
	if err == nil || !strings.Contains(err.Error(), "Failed getting release file") || !strings.Contains(fault.Remedy(err), "http://mirror.example.com") {
		t.Errorf("%v; %s", err, fault.Remedy(err))
	}
	filepath.Walk(filepath.Join(cache, "images"), func(path string, _ os.FileInfo, err error) error {
		if err == nil && path != filepath.Join(cache, "images") {
			t.Errorf("%s is left", path)
		}
		return nil
	})
}

func TestAnImageIsBuiltOnceAndFurnished(t *testing.T) {
	put(t, "echo build >> \"$(dirname \"$0\")/builds\"; for a; do case $a in /*) d=$a;; esac; done; mkdir -p \"$d/etc\" \"$d/usr/share/doc/x\"; echo id > \"$d/etc/machine-id\"\n")
	cache := t.TempDir()
	stale := filepath.Join(cache, "images", Recipe{}.Digest(), "draft", "etc", "half")
	if err := os.MkdirAll(stale, 0o755); err != nil { // left by an interrupted build
		t.Fatal(err)
	}
	for range 2 {
		root, err := Recipe{}.Ensure(t.Context(), cache, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, gone := range []string{"etc/machine-id", "usr/share/doc", "etc/half"} {
			if _, err := os.Stat(filepath.Join(root, gone)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is in the image", gone)
			}
		}
		if target, err := os.Readlink(filepath.Join(root, "etc/systemd/system/systemd-udevd.service")); err != nil || target != "/dev/null" {
			t.Errorf("the device manager is not masked: %q, %v", target, err)
		}
		if info, err := os.Stat(filepath.Join(root, "usr/lib/kops/userdata")); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("the script of the first boot: %v, %v", info, err)
		}
	}
	path, _, _ := strings.Cut(os.Getenv("PATH"), ":")
	if builds, err := os.ReadFile(filepath.Join(path, "builds")); err != nil || string(builds) != "build\n" {
		t.Errorf("it was built: %q, %v", builds, err)
	}
}
