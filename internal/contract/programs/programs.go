// Package programs defines how kops' own programs get to machines: their names, and where they are
// in a cluster's store and on its control plane. They are delivered with the cluster, so they are
// not published anywhere.
//
// It must not know how they are packed, nor who fetches them.
package programs

import (
	"path"
	"strings"

	"kops.local/kops/internal/contract/download"
)

// Registry is the registry in the names of images of kops' own programs. It does not exist, and
// cannot exist: the domain is reserved for private use. Machines import the images.
const Registry = "kops.internal"

// Folder is where the programs are, both below the cluster's folder in its store and on the server
// of a control plane.
const Folder = "programs/"

// kops' own programs that run in containers.
const (
	Controller    = "kops-controller"
	Channels      = "channels"
	EtcdManager   = "etcd-manager"
	DNSController = "dns-controller"
	Healthcheck   = "kube-apiserver-healthcheck"
)

// Index lists the contents of an archive of programs of one version.
type Index struct {
	Version string `json:"version"`
	// Nodeup is the program itself, compressed with gzip; Program is its uncompressed digest.
	Nodeup map[download.Arch]File `json:"nodeup"`
	// Images are container images, by the name of their program.
	Images map[string]Image `json:"images"`
}

// Image is a container image, as an archive for each architecture.
type Image struct {
	// Name is the full name, with a tag that identifies the contents.
	Name     string                 `json:"name"`
	Archives map[download.Arch]File `json:"archives"`
}

// File is a file of an archive.
type File struct {
	// Path is the path below the root of the archive, and of places with copies of it.
	Path   string `json:"path"`
	SHA256 string `json:"sha256"` // hexadecimal, of the stored file
	Size   int64  `json:"size"`   // bytes
	// Program is the SHA-256 of the program in a compressed file; empty if the file is not
	// compressed.
	Program string `json:"program,omitempty"`
}

// Key returns where the file is stored: its digest is part of the key, so that the content at a key
// never changes.
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

// ImageName returns the name of a program's image if there is no archive.
func ImageName(program, version string) string { return Registry + "/" + program + ":" + version }

// IsOwn reports whether a URL or an image's name refers to one of kops' own programs.
func IsOwn(name string) bool {
	return strings.HasPrefix(strings.TrimPrefix(name, "https://"), Registry+"/")
}

// Public returns the name of nodeup under which its digest is known and a mirror stores it. It
// cannot be fetched: machines get nodeup from their cluster, or from the user's own copies.
func Public(version string, arch download.Arch) string {
	return "https://" + Registry + "/binaries/kops/" + version + "/linux/" + string(arch) + "/nodeup"
}
