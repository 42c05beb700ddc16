package member

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kops.local/kops/internal/node/etcd"
)

// Programs is the folder with the programs of each version of etcd: in subfolders
// etcd-v<version>, directly or in their usr/local/bin, as in etcd's images.
type Programs string

// Versions lists the versions whose etcd is available, such as 3.6.12.
func (p Programs) Versions() []string {
	entries, err := os.ReadDir(string(p))
	if err != nil {
		return nil // there are none
	}
	var out []string
	for _, e := range entries {
		version, ok := strings.CutPrefix(e.Name(), "etcd-v")
		if ok && p.find(version, "etcd") != "" {
			out = append(out, version)
		}
	}
	slices.Sort(out)
	return out
}

// serve returns the version that runs data of a version: the version itself, or else the newest of
// its minor version, whose patch releases all use the same format. A new machine has newer patch
// releases, while its disk stays. If there is none, it returns the version itself.
func (p Programs) serve(version string) string {
	all := p.Versions()
	if v, ok := etcd.Pick(all, version); ok {
		return v
	}
	if v, ok := etcd.Pick(all, version[:strings.LastIndexByte(version, '.')+1]+"0"); ok {
		return v
	}
	return version
}

// find returns the path of a program of a version, or "".
func (p Programs) find(version, program string) string {
	for _, sub := range []string{"", "usr/local/bin"} {
		path := filepath.Join(string(p), "etcd-v"+version, sub, program)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// restorer returns the program that unpacks snapshots for a version: its own etcdutl, the etcdutl
// of another patch release of the same minor version, or its etcdctl.
func (p Programs) restorer(version string) string {
	if path := p.find(version, "etcdutl"); path != "" {
		return path
	}
	minor := version[:strings.LastIndexByte(version, '.')+1]
	all := p.Versions()
	slices.Reverse(all)
	for _, v := range all {
		if path := p.find(v, "etcdutl"); path != "" && strings.HasPrefix(v, minor) {
			return path
		}
	}
	return p.find(version, "etcdctl")
}
