package member

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kops.local/kops/internal/node/etcd"
)

// Programs says where the programs of each version of etcd are: in folders
// etcd-v<version> below it, directly or in their usr/local/bin, as in etcd's images.
type Programs string

// Versions lists the versions whose etcd is there, such as 3.6.12.
func (p Programs) Versions() []string {
	entries, err := os.ReadDir(string(p))
	if err != nil {
		return nil // none is there
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
// its minor version, whose patches all have the same format. A new machine brings newer patches,
// while its disk stays. It is the version itself if there is none.
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
// of another patch of the same minor version, or its etcdctl.
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
