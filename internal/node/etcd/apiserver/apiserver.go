// Package apiserver ends the API servers of a machine, which its kubelet then starts
// again: an API server that has read one etcd cluster must not go on with another. It also
// finds out by which keys they read what they have encrypted.
//
// It must not know why etcd has other data, nor how API servers are started.
package apiserver

import (
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// Containerd is the socket of containerd, by which containers are removed.
const Containerd = "/run/containerd/containerd.sock"

// containerID is the name that containerd gives a container; it is part of its cgroup's name.
var containerID = regexp.MustCompile(`[0-9a-f]{64}`)

// encryptionConfig returns the file that an API server's command line names as its
// EncryptionConfiguration; empty for none.
func encryptionConfig(args []string) string {
	for i, a := range args {
		name, value, assigned := strings.Cut(a, "=")
		switch {
		case name != "--encryption-provider-config":
		case assigned:
			return value
		case i+1 < len(args):
			return args[i+1]
		}
	}
	return ""
}

// asks reports whether a command line belongs to an API server that uses the etcd at a port: by
// its flags etcd-servers, or etcd-servers-overrides (RESOURCE#URL;URL).
func asks(args []string, port string) bool {
	if len(args) == 0 || filepath.Base(args[0]) != "kube-apiserver" {
		return false
	}
	for _, a := range args[1:] {
		name, value, _ := strings.Cut(a, "=")
		if name != "--etcd-servers" && name != "--etcd-servers-overrides" {
			continue
		}
		for _, s := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(",;#", r) }) {
			if u, err := url.Parse(s); err == nil && u.Port() == port {
				return true
			}
		}
	}
	return false
}
