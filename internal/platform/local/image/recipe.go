// Package image builds the root folder that machines of the local cloud boot from: a
// small Debian with systemd, built once for each recipe and kept in the user's cache,
// where all machines share it through overlayfs.
//
// It must not know of clusters or machines.
package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"slices"
)

// Recipe specifies what an image contains. Equal recipes give the same image.
type Recipe struct {
	// Release is the code name of the Debian release. Debian 12, bookworm, is the last
	// whose systemd runs on hosts with control groups of version 1.
	Release string
	// Mirror is the URL from which Debian's packages are fetched.
	Mirror string
	// Packages are installed in addition to the packages of every image.
	Packages []string
}

// Default values of a recipe.
const (
	DefaultRelease = "bookworm"
	DefaultMirror  = "http://deb.debian.org/debian"
)

// basePackages returns what every machine needs: its init, what nodeup would install, and
// what containerd, kubelet, kube-proxy and network plugins call.
func basePackages() []string {
	return []string{
		"systemd", "systemd-sysv", "dbus", "kmod", "mount", "util-linux", "procps", "iproute2", "iputils-ping",
		"ca-certificates", "curl", "xz-utils", "logrotate", "openssl",
		"conntrack", "iptables", "nftables", "ebtables", "ethtool", "socat", "libseccomp2", "libapparmor1",
	}
}

// withDefaults fills in unset fields of a recipe.
func (r Recipe) withDefaults() Recipe {
	if r.Release == "" {
		r.Release = DefaultRelease
	}
	if r.Mirror == "" {
		r.Mirror = DefaultMirror
	}
	all := slices.Concat(basePackages(), r.Packages)
	slices.Sort(all)
	r.Packages = slices.Compact(all)
	return r
}

// Digest identifies the recipe's result: the packages, and the files that are added
// to them. The mirror is not included.
func (r Recipe) Digest() string {
	r = r.withDefaults()
	r.Mirror = ""
	data, err := json.Marshal(struct {
		Recipe  Recipe
		Files   []file
		Links   []link
		Removed []string
	}{r, extraFiles(), extraLinks(), removedPaths()})
	if err != nil {
		panic(err) // plain text only: cannot happen
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6])
}

// Root returns the image's root folder below a cache folder.
func (r Recipe) Root(cache string) string {
	return filepath.Join(cache, "images", r.Digest(), "root")
}
