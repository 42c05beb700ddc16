// Package programs is how kops' own programs come to machines: what they are called,
// and where they stand in a cluster's store and on its control plane. They travel with
// the cluster, so nothing of them is published anywhere.
//
// It must not know how they are packed, nor who fetches them.
package programs

import (
	"path"
	"strings"

	"kops.local/kops/internal/contract/download"
)

// Registry is where images of kops' own programs seem to be from. No such registry
// exists, nor can it: the domain is reserved for private use. Machines import them.
const Registry = "kops.internal"

// Folder is where the programs stand, both below the cluster's folder in its store and
// on the server of a control plane.
const Folder = "programs/"

// Own programs that run in containers.
const (
	Controller    = "kops-controller"
	Channels      = "channels"
	EtcdManager   = "etcd-manager"
	DNSController = "dns-controller"
	Healthcheck   = "kube-apiserver-healthcheck"
)

// Index says what an archive of programs of one version holds.
type Index struct {
	Version string `json:"version"`
	// Nodeup is the program itself, compressed by gzip; Program is its digest as it runs.
	Nodeup map[download.Arch]File `json:"nodeup"`
	// Images are container images, by the name of their program.
	Images map[string]Image `json:"images"`
}

// Image is a container image, as an archive for each architecture.
type Image struct {
	// Name is whole, with a tag that tells contents apart.
	Name     string                 `json:"name"`
	Archives map[download.Arch]File `json:"archives"`
}

// File is a file of an archive.
type File struct {
	// Path is below the root of the archive, and of places that hold copies of it.
	Path   string `json:"path"`
	SHA256 string `json:"sha256"` // hexadecimal, of the file as it is
	Size   int64  `json:"size"`   // bytes
	// Program is the SHA-256 of the program in a compressed file; empty if the file is not
	// compressed.
	Program string `json:"program,omitempty"`
}

// Key is where the file stands: by its digest, so that no other ever stands there.
func (f File) Key() string { return Folder + f.SHA256 + "/" + path.Base(f.Path) }

// ParseKey splits a key into its parts; ok is false for any other text.
func ParseKey(key string) (sha256, base string, ok bool) {
	rest, ok := strings.CutPrefix(key, Folder)
	if !ok {
		return "", "", false
	}
	sha256, base, ok = strings.Cut(rest, "/")
	if !ok || !download.IsSHA256(sha256) || sha256 != strings.ToLower(sha256) || base == "" || base == "." || base == ".." || strings.ContainsAny(base, "/\\") {
		return "", "", false
	}
	return sha256, base, true
}

// ImageName is what the image of a program is called where no archive says it.
func ImageName(program, version string) string { return Registry + "/" + program + ":" + version }

// IsOwn reports whether a URL or an image's name names one of kops' own programs.
func IsOwn(name string) bool {
	return strings.HasPrefix(strings.TrimPrefix(name, "https://"), Registry+"/")
}

// Public is the name of nodeup, under which its digest is known and a mirror stores it. It
// cannot be fetched: machines get nodeup from their cluster, or from the user's own copies.
func Public(version string, arch download.Arch) string {
	return "https://" + Registry + "/binaries/kops/" + version + "/linux/" + string(arch) + "/nodeup"
}
