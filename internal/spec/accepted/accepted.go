// Package accepted knows which command-line flags, feature gates and admission plugins each minor
// version of Kubernetes accepts: its programs exit at once if they are given an unknown one.
// tools/kubeaccepts reads the lists from the source of Kubernetes.
//
// It must not know specs: the tag of a field determines its flag.
package accepted

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"github.com/blang/semver/v4"
)

// Kinds of names; for flags, the kind is the name of the program.
const (
	gate   = "gate"
	plugin = "plugin"
)

//go:embed accepted.tsv
var table string

// key is a name of some kind in a minor version.
type key struct{ minor, kind, name string }

// names returns everything that is accepted, and the known minor versions.
var names = sync.OnceValues(func() (all map[key]bool, minors map[string]bool) {
	all, minors = map[key]bool{}, map[string]bool{}
	for line := range strings.Lines(table) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 {
			continue
		}
		for minor := range strings.SplitSeq(fields[1], ",") {
			minors[minor] = true
			for n := range strings.FieldsSeq(fields[2]) {
				all[key{minor, fields[0], n}] = true
			}
		}
	}
	return all, minors
})

// Release is a minor version of Kubernetes, such as 1.36.
type Release string

// Of returns the minor version of a release; known is false if there are no lists for it.
func Of(v semver.Version) (r Release, known bool) {
	_, minors := names()
	r = Release(fmt.Sprintf("%d.%d", v.Major, v.Minor))
	return r, minors[string(r)]
}

func (r Release) accepts(kind, name string) bool {
	all, _ := names()
	return all[key{string(r), kind, name}]
}

// Flag reports whether a program, such as kube-apiserver, has a flag.
func (r Release) Flag(program, flag string) bool { return r.accepts(program, flag) }

// Gate reports whether a feature gate exists.
func (r Release) Gate(name string) bool { return r.accepts(gate, name) }

// Plugin reports whether an admission plugin exists.
func (r Release) Plugin(name string) bool { return r.accepts(plugin, name) }
