// Package etcdversion lists the releases of etcd that the etcd managers can run.
//
// It must not know which of them a cluster should run.
package etcdversion

import (
	"fmt"
)

// Release is a minor version of etcd 3 with its newest patch.
type Release struct{ Minor, Patch uint64 }

func (r Release) String() string { return fmt.Sprintf("3.%d.%d", r.Minor, r.Patch) }

// All lists the releases, oldest first.
func All() []Release { return []Release{{5, 31}, {6, 12}, {7, 0}} }

// Newest returns the release of a minor version.
func Newest(minor uint64) (Release, bool) {
	for _, r := range All() {
		if r.Minor == minor {
			return r, true
		}
	}
	return Release{}, false
}
