// Package apiserver ends the API servers of a machine, which its kubelet then starts
// again: an API server that has read one etcd cluster must not go on with another.
//
// It must not know why etcd has other data, nor how API servers are started.
package apiserver

import (
	"net/url"
	"path/filepath"
	"strings"
)

// asks reports whether a command line is that of an API server that uses the etcd at a
// port: by its flags etcd-servers, or etcd-servers-overrides (RESOURCE#URL;URL).
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
