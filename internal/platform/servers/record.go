package servers

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"kops.local/kops/internal/contract/labels"
)

// Labels in which a fleet records what a server was made of. They are valid labels of Kubernetes, and
// of clouds that take the same.
const (
	// userDataLabel has the digest of the user data, in the form that kOps writes.
	userDataLabel = "kops.k8s.io/instance-userdata"
	// configLabel has the hash of the node configuration in the user data.
	configLabel = "kops.k8s.io/instance-config"
	// detachedLabel means that the group no longer counts the server.
	detachedLabel = "kops.k8s.io/detached"
	// wantedPrefix begins the labels of a marked server with what it would be made of now.
	wantedPrefix = "wanted.kops.k8s.io/"
	// wantedUserData and wantedConfig are such labels, for userDataLabel and configLabel.
	wantedUserData, wantedConfig = wantedPrefix + "userdata", wantedPrefix + "config"
)

// record is what a server is, or would be, made of.
type record struct {
	made             map[string]string
	userData, config string // as in labels
}

// made returns what a server was made of.
func (s Server) made() record {
	return record{s.Made, s.Labels[userDataLabel], s.Labels[configLabel]}
}

// wanted returns what a server would have been made of at the last update: what it was made of, unless
// it is marked.
func (s Server) wanted() record {
	r := s.made()
	if !s.IsOutdated() {
		return r
	}
	made := map[string]string{}
	maps.Copy(made, r.made)
	for key := range s.Labels {
		field, ok := strings.CutPrefix(key, wantedPrefix)
		if ok && key != wantedUserData && key != wantedConfig && !strings.Contains(field, further) {
			made[field] = readValue(s.Labels, key)
		}
	}
	return record{made, s.Labels[wantedUserData], s.Labels[wantedConfig]}
}

// IsOutdated reports whether a server is marked.
func (s Server) IsOutdated() bool {
	_, is := s.Labels[labels.NeedsUpdate]
	return is
}

// IsDetached reports whether its group no longer counts a server.
func (s Server) IsDetached() bool {
	_, is := s.Labels[detachedLabel]
	return is
}

// isCounted reports whether a server is one of those that its group should have.
func (s Server) isCounted() bool { return !s.Ending && !s.IsDetached() }

// labelsFor returns the labels of a server of a group after an update that would make it of r: it is
// marked if it was made of something else.
func (s Server) labelsFor(own map[string]string, r record) map[string]string {
	out := map[string]string{}
	maps.Copy(out, own)
	have := s.made()
	for _, key := range []string{userDataLabel, configLabel, detachedLabel} {
		if value, ok := s.Labels[key]; ok {
			out[key] = value
		}
	}
	isSame := have.userData == r.userData
	for field, value := range r.made {
		if have.made[field] != value {
			isSame = false
			writeValue(out, wantedPrefix+field, value)
		}
	}
	if !isSame {
		out[labels.NeedsUpdate], out[wantedUserData], out[wantedConfig] = "", r.userData, r.config
	}
	return out
}

// ownLabels returns the labels of a server without the fleet's records.
func ownLabels(all map[string]string) map[string]string {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(key, _ string) bool {
		return slices.Contains([]string{userDataLabel, configLabel, detachedLabel, labels.NeedsUpdate}, key) || strings.HasPrefix(key, wantedPrefix)
	})
	return out
}

const (
	// encoded begins a value that a label could not have as it is.
	encoded = "base32."
	// further comes between the key of a label and the number of another that continues its value.
	further = "__"
)

// alphanumeric is an encoding of which each part is a valid value of a label.
func alphanumeric() *base32.Encoding { return base32.HexEncoding.WithPadding(base32.NoPadding) }

// writeValue adds a value to labels, in as many as it needs; readValue is the reverse.
func writeValue(to map[string]string, key, value string) {
	if len(validation.IsValidLabelValue(value)) > 0 || strings.HasPrefix(value, encoded) {
		value = encoded + alphanumeric().EncodeToString([]byte(value))
	}
	for n := 1; ; n++ {
		part := value[:min(len(value), validation.LabelValueMaxLength)]
		to[key] = part
		if value = value[len(part):]; value == "" {
			return
		}
		key, _, _ = strings.Cut(key, further)
		key += fmt.Sprint(further, n)
	}
}

func readValue(from map[string]string, key string) string {
	value := from[key]
	text, ok := strings.CutPrefix(value, encoded)
	if !ok {
		return value
	}
	for n := 1; from[key+fmt.Sprint(further, n)] != ""; n++ {
		text += from[key+fmt.Sprint(further, n)]
	}
	out, err := alphanumeric().DecodeString(text)
	if err != nil { // written by another program
		return value
	}
	return string(out)
}

// encodeDigest returns a label value with the SHA-256 of a text.
func encodeDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256." + base64.RawURLEncoding.EncodeToString(sum[:])
}

// decodeDigest returns the hexadecimal SHA-256 in a label value; "" if there is none.
func decodeDigest(label string) string {
	text, ok := strings.CutPrefix(label, "sha256.")
	sum, err := base64.RawURLEncoding.DecodeString(text)
	if !ok || err != nil {
		return ""
	}
	return hex.EncodeToString(sum)
}

// encodeHash returns a label value with the base64 of a hash; decodeHash is the reverse.
func encodeHash(hash string) string {
	if hash == "" {
		return ""
	}
	return "h" + strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(hash)
}

func decodeHash(label string) string {
	text, ok := strings.CutPrefix(label, "h")
	sum, err := base64.RawURLEncoding.DecodeString(text)
	if !ok || err != nil {
		return ""
	}
	return base64.StdEncoding.EncodeToString(sum)
}
