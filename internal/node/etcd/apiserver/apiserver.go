// Package apiserver stops the API servers of a machine, which the kubelet then starts
// again: an API server that has read from one etcd cluster must not continue with another.
// It also determines with which keys they read what they have encrypted.
//
// It must not know why etcd has other data, nor how API servers are started.
package apiserver

import (
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// Containerd is the socket of containerd, through which containers are removed.
const Containerd = "/run/containerd/containerd.sock"

// containerID matches containerd's ID of a container, which is part of its cgroup's name.
var containerID = regexp.MustCompile(`[0-9a-f]{64}`)

// encryptionConfig returns the path of the EncryptionConfiguration in an API
// server's command line; empty for none.
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

// usesPort reports whether a command line belongs to an API server that uses the etcd at a port,
// according to its flags etcd-servers or etcd-servers-overrides (RESOURCE#URL;URL).
func usesPort(args []string, port string) bool {
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
