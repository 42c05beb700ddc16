package servers

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
)

// DigestLabel is the label with the digest of a machine's inputs.
const DigestLabel = "kops.k8s.io/made-of"

// Digest returns a label value that identifies machines' inputs, such as type, image and user data.
func Digest(parts ...string) string {
	all := sha256.New()
	for _, p := range parts {
		one := sha256.Sum256([]byte(p))
		all.Write(one[:]) // a hash never fails
	}
	return hex.EncodeToString(all.Sum(nil)[:16])
}

// Labels returns the labels of a new machine of a group.
func Labels(group, digest string) map[string]string {
	return map[string]string{api.LabelInstanceGroup: group, DigestLabel: digest}
}

// Mark returns a machine's labels after an update that would create it with digest: the mark that
// it needs replacing is added or removed.
func Mark(have map[string]string, digest string) map[string]string {
	out := maps.Clone(have)
	if delete(out, labels.NeedsUpdate); have[DigestLabel] != digest {
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
