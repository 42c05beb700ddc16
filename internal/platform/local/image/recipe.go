// Package image makes the root folder that machines of the local cloud boot
// from: a small Debian with systemd, built once for each recipe
// and kept in the user's cache, where every machine shares it through overlayfs.
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

// Recipe says what an image is made of. Equal recipes make one image.
type Recipe struct {
	// Release is Debian's name of its release. Debian 12, bookworm, is the last
	// whose systemd runs on hosts with control groups of version 1.
	Release string
	// Mirror is the URL that Debian's packages are fetched from.
	Mirror string
	// Packages are installed in addition to every machine's.
	Packages []string
}

// Default values of a recipe.
const (
	DefaultRelease = "bookworm"
	DefaultMirror  = "http://deb.debian.org/debian"
)

// packages are on every machine: its init, and what nodeup would install, and
// containerd, kubelet, kube-proxy and network plugins call.
func packages() []string {
	return []string{
		"systemd", "systemd-sysv", "dbus", "kmod", "mount", "util-linux", "procps", "iproute2", "iputils-ping",
		"ca-certificates", "curl", "xz-utils", "logrotate", "openssl",
		"conntrack", "iptables", "nftables", "ebtables", "ethtool", "socat", "libseccomp2", "libapparmor1",
	}
}

// withDefaults fills in what a recipe leaves open.
func (r Recipe) withDefaults() Recipe {
	if r.Release == "" {
		r.Release = DefaultRelease
	}
	if r.Mirror == "" {
		r.Mirror = DefaultMirror
	}
	all := slices.Concat(packages(), r.Packages)
	slices.Sort(all)
	r.Packages = slices.Compact(all)
	return r
}

// Digest names what the recipe makes: the packages, and the files that are put
// on top of them. The mirror has no part in it.
func (r Recipe) Digest() string {
	r = r.withDefaults()
	r.Mirror = ""
	data, err := json.Marshal(struct {
		Recipe  Recipe
		Files   []file
		Links   []link
		Removed []string
	}{r, files(), links(), removed()})
	if err != nil {
		panic(err) // plain text only: cannot happen
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6])
}

// Root is the image's root folder below a cache folder.
func (r Recipe) Root(cache string) string {
	return filepath.Join(cache, "images", r.Digest(), "root")
}
