package main

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// iptables is the root of an image for kube-proxy: iptables in the nftables
// variant, nft and conntrack, with all extensions and libraries. It has no
// modprobe: the kernel itself loads the extensions of iptables.
type iptables struct{}

// notDebian is the advice for hosts without packages of Debian.
const notDebian = "without Debian's packages, use a published image, such as registry.k8s.io/kube-proxy, which has these files"

const multi = "xtables-nft-multi"

// links are the names under which multi runs as one of its parts.
func (iptables) links() []string {
	var out []string
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, part := range []string{"", "-save", "-restore"} {
			out = append(out, family+part, family+"-nft"+part)
		}
	}
	return out
}

func (i iptables) files() []string {
	out := []string{"rootfs/usr/sbin/" + multi, "rootfs/usr/sbin/nft", "rootfs/usr/sbin/conntrack", "rootfs/etc/protocols"}
	for _, l := range i.links() {
		out = append(out, "rootfs/usr/sbin/"+l)
	}
	return out
}

func (i iptables) make(ctx context.Context, j job) error {
	if err := checkPackages(j.arch); err != nil {
		return fmt.Errorf("%w; %s", err, notDebian)
	}
	// netbase contains /etc/protocols and /etc/services, in which names in rules are looked up.
	names, err := dependencies(ctx, "iptables", "nftables", "conntrack", "netbase")
	if err != nil {
		return err
	}
	root := filepath.Join(j.dir, "rootfs")
	if err := unpackPackages(ctx, j, root, names...); err != nil {
		return err
	}
	for _, step := range []func(string) error{mergeUsr, i.trim, i.link, checkLibraries} {
		if err := step(root); err != nil {
			return err
		}
	}
	return reportSize(j, fmt.Sprint(len(names), " packages"), root)
}

// mergeUsr moves the files of packages outside /usr to their location in current releases.
func mergeUsr(root string) error {
	for _, top := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		old := filepath.Join(root, top)
		info, err := os.Lstat(old)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
			continue
		} else if err != nil {
			return err
		}
		if err := moveInto(old, filepath.Join(root, "usr", top)); err != nil {
			return err
		}
		if err := os.Remove(old); err != nil {
			return err
		}
	}
	// Programs refer to the loader by its path in /lib or /lib64, regardless of the packages' layout.
	entries, err := os.ReadDir(filepath.Join(root, "usr"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if n := e.Name(); strings.HasPrefix(n, "lib") || n == "bin" || n == "sbin" {
			if err := os.Symlink("usr/"+n, filepath.Join(root, n)); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
	}
	return nil
}

// moveInto moves the entries of a folder into another, which may have folders of the same name.
func moveInto(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if info, err := os.Lstat(target); err == nil && info.IsDir() && e.IsDir() {
			err = moveInto(source, target)
			if err = errors.Join(err, os.Remove(source)); err != nil {
				return err
			}
			continue
		}
		if err := os.Rename(source, target); err != nil {
			return err
		}
	}
	return nil
}

// trim removes documentation, encoding converters, and programs that
// are not needed, such as the legacy variant of iptables.
func (iptables) trim(root string) error { return trim(root, multi, "nft", "conntrack") }

// trim removes what programs in a container do not need, and all programs except some; with none
// named, all are kept.
func trim(root string, programs ...string) error {
	var unused []string
	for _, pattern := range []string{"usr/share", "usr/include", "usr/lib/systemd", "usr/lib/locale", "usr/lib/*/gconv", "usr/lib/*/audit",
		"usr/lib/*/pkgconfig", "usr/lib/*/libpcprofile.so", "usr/lib/*/tc", "etc/init.d", "etc/default", "var"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		unused = append(unused, found...)
	}
	all, err := filepath.Glob(filepath.Join(root, "usr/*bin/*"))
	if err != nil {
		return err
	}
	for _, p := range all {
		if len(programs) > 0 && !slices.Contains(programs, filepath.Base(p)) {
			unused = append(unused, p)
		}
	}
	for _, u := range unused {
		if err := os.RemoveAll(u); err != nil {
			return err
		}
	}
	return nil
}

// link creates the links to multi, and the folder of the lock that kube-proxy takes.
func (i iptables) link(root string) error {
	for _, l := range i.links() {
		at := filepath.Join(root, "usr/sbin", l)
		if err := os.RemoveAll(at); err != nil { // the package has some of them
			return err
		}
		if err := os.Symlink(multi, at); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(root, "run"), 0o755)
}

// checkLibraries ensures that every library that a file below root needs is
// there too; a missing one would only show when a rule uses the extension.
func checkLibraries(root string) error {
	present, needed := map[string]bool{}, map[string]string{}
	err := filepath.WalkDir(filepath.Join(root, "usr"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		present[d.Name()] = true
		if !d.Type().IsRegular() {
			return nil
		}
		f, err := elf.Open(path)
		if err != nil { // a text file, or an empty one
			return nil
		}
		defer f.Close() //nolint:errcheck // only read
		libraries, err := f.ImportedLibraries()
		for _, l := range libraries {
			needed[l] = path
		}
		return err
	})
	if err != nil {
		return err
	}
	for library, by := range needed {
		if !present[library] {
			err = errors.Join(err, fmt.Errorf("%s needs %s, which no package contains", by, library))
		}
	}
	return err
}

// reportSize reports what a folder has, and its size.
func reportSize(j job, what, root string) error {
	size, err := diskUse(root)
	j.say("%s, %.1f MB", what, float64(size)/1e6)
	return err
}

// diskUse returns the size of all files below root, in bytes.
func diskUse(root string) (total int64, err error) {
	err = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}
