// Package servers is for platforms that know only single machines and no groups: an update of the
// cluster makes each missing machine, and labels of a machine say what it was made of. An outdated
// machine is marked by the update, and stays until a roll ends it.
//
// It must not know any platform.
package servers

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
)

// MadeOf is the label with the digest of what a machine was made of.
const MadeOf = "kops.k8s.io/made-of"

// Digest is a label's value for what machines are made of, such as type, image and user data.
func Digest(parts ...string) string {
	all := sha256.New()
	for _, p := range parts {
		one := sha256.Sum256([]byte(p))
		all.Write(one[:]) // a hash takes all
	}
	return hex.EncodeToString(all.Sum(nil)[:16])
}

// Labels returns the labels of a new machine of a group.
func Labels(group, digest string) map[string]string {
	return map[string]string{api.LabelInstanceGroup: group, MadeOf: digest}
}

// Mark returns the labels of a machine after an update that would make it of digest: it
// needs another in its place, or does so no longer.
func Mark(have map[string]string, digest string) map[string]string {
	out := maps.Clone(have)
	if delete(out, labels.NeedsUpdate); have[MadeOf] != digest {
		if out == nil {
			out = map[string]string{}
		}
		out[labels.NeedsUpdate] = ""
	}
	return out
}

// Outdated reports whether a machine is marked.
func Outdated(have map[string]string) bool {
	_, marked := have[labels.NeedsUpdate]
	return marked
}
