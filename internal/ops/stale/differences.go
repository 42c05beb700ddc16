package stale

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/redact"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/effects"
)

// differences returns the differences of two node configurations, each as a field of the spec. If
// the old one is not known, there is one reason, with the hashes.
func (in In) differences(old, now []byte, oldHash, nowHash string) []Reason {
	have, known := values(old)
	want, readable := values(now)
	if !known || !readable {
		return []Reason{{Unkept, shortHash(oldHash), shortHash(nowHash), Replace}}
	}
	oldVersion, version := have[versionKey], want[versionKey]
	var out []Reason
	for _, key := range sorted(have, want) {
		h, w := have[key], want[key]
		if h == w || oldVersion != version && isVersionChange(key, h, w, oldVersion, version) {
			continue
		}
		r := in.reasonOf(key, h, w)
		at := slices.IndexFunc(out, func(x Reason) bool { return x.Field == r.Field })
		if at < 0 {
			out = append(out, r)
			continue
		}
		out[at].Effect = max(out[at].Effect, r.Effect)
	}
	if distrustsServer(have, want) {
		for i, r := range out {
			if r.Field == authority {
				out[i].Effect = Replace
			}
		}
	}
	out = withoutWholes(withoutBlocks(out))
	if len(out) == 0 { // the texts only differ in spelling
		out = append(out, Reason{Field: "the node configuration has a different form", Effect: None})
	}
	return out
}

// authority is the reason for a machine that trusts another cluster authority.
const authority = "keypair " + pki.KubernetesCA

// distrustsServer reports whether a worker would not trust the server of its configuration:
// kops-controller presents a certificate signed by an authority that is not in the worker's
// configuration. Such a worker cannot be updated.
func distrustsServer(have, want map[string]string) bool {
	id := want["KeypairIDs."+pki.KubernetesCA]
	if id == have["KeypairIDs."+pki.KubernetesCA] || want["configStore"] != "" {
		return false
	}
	for rest := []byte(have["CAs."+pki.KubernetesCA]); ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return true
		}
		if c, err := x509.ParseCertificate(b.Bytes); err == nil && c.SerialNumber.String() == id {
			return false
		}
	}
}

// isVersionChange reports whether a difference merely follows from the version of Kubernetes: an
// image with another tag, or a file whose name has no version in it.
func isVersionChange(key, have, want, oldVersion, version string) bool {
	if key == versionKey || have == "" || want == "" {
		return false
	}
	return strings.HasPrefix(key, assetsKey+".") || withoutDigest(strings.ReplaceAll(have, oldVersion, version)) == withoutDigest(want)
}

// block represents the parts of a value.
const block = "{}"

// withoutBlocks removes reasons that only say whether a block exists if reasons for its parts have
// at least the same effect; otherwise it removes the parts, as they follow from it.
func withoutBlocks(all []Reason) []Reason {
	below := func(r, block Reason) bool {
		rest, is := strings.CutPrefix(r.Field, block.Field)
		return is && rest != "" && (rest[0] == '.' || rest[0] == ' ' && !strings.HasPrefix(r.Field, "spec."))
	}
	return slices.DeleteFunc(slices.Clone(all), func(r Reason) bool {
		if r.Have == block && r.Want == "" || r.Have == "" && r.Want == block {
			return slices.ContainsFunc(all, func(x Reason) bool { return below(x, r) && x.Effect >= r.Effect })
		}
		return slices.ContainsFunc(all, func(x Reason) bool { return (x.Have == block || x.Want == block) && below(r, x) && x.Effect > r.Effect })
	})
}

// withoutWholes removes reasons that only name a field if a field below it says what changed.
func withoutWholes(all []Reason) []Reason {
	return slices.DeleteFunc(slices.Clone(all), func(r Reason) bool {
		return r.Have == "" && r.Want == "" && slices.ContainsFunc(all, func(x Reason) bool {
			return strings.HasPrefix(x.Field, r.Field+".") && x.Effect >= r.Effect
		})
	})
}

// Unkept is the reason for a machine that runs a configuration that is no longer in the store.
const Unkept = "node configuration"

const (
	versionKey = "KubernetesVersion"
	assetsKey  = "Assets"
)

// reasonOf names the field that a part of a node configuration follows from.
func (in In) reasonOf(key, have, want string) Reason {
	r := Reason{Have: display(key, have), Want: display(key, want)}
	f := fieldOf(key)
	r.Field, r.Effect = f.Field, f.Effect
	below := strings.TrimPrefix(key, f.Key)
	inSpec := strings.HasPrefix(f.Field, "spec.")
	switch {
	case f.whole && inSpec && have != block && want != block: // the part's value is not the field's value
		r.Have, r.Want = "", ""
	case f.whole:
	case inSpec:
		r.Field += below
	case below != "":
		r.Field += " " + below[1:]
	}
	if inSpec {
		r.Effect = in.Effects.OfAny(r.Field)
	}
	return r
}

// values returns the values of a configuration by their paths: values with parts are split, and
// lists of texts are one value. Files to install are listed by name.
func values(text []byte) (map[string]string, bool) {
	var doc map[string]any
	if len(text) == 0 || yaml.Unmarshal(text, &doc) != nil {
		return nil, false
	}
	out := map[string]string{}
	for _, list := range each(doc[assetsKey]) {
		for _, file := range each(list) {
			hash, urls, _ := strings.Cut(fmt.Sprint(file), "@")
			first, _, _ := strings.Cut(urls, ",")
			out[assetsKey+"."+path.Base(first)] = hash
		}
	}
	delete(doc, assetsKey)
	flatten(out, "", doc)
	return out, true
}

// each returns the elements of a list or a map.
func each(of any) []any {
	switch x := of.(type) {
	case []any:
		return x
	case map[string]any:
		return slices.Collect(maps.Values(x))
	}
	return nil
}

func flatten(out map[string]string, at string, of any) {
	switch x := of.(type) {
	case nil:
	case map[string]any:
		if at != "" {
			out[at] = block
		}
		for k, v := range x {
			flatten(out, strings.TrimPrefix(at+"."+k, "."), v)
		}
	case []any:
		flattenList(out, at, x)
	default:
		text, err := json.Marshal(x)
		if s, ok := x.(string); ok || err != nil {
			text = []byte(s)
		}
		out[at] = string(text)
	}
}

// flattenList adds objects by their names, and joins everything else.
func flattenList(out map[string]string, at string, list []any) {
	var texts []string
	for i, x := range list {
		switch o := x.(type) {
		case map[string]any, []any:
			name := fmt.Sprint(i)
			if m, ok := o.(map[string]any); ok {
				for _, key := range []string{"name", "path", "key", "device"} {
					if s, ok := m[key].(string); ok {
						name = s
						break
					}
				}
			}
			flatten(out, at+"["+name+"]", o)
		default:
			if text := fmt.Sprint(x); !strings.HasPrefix(text, "# ") { // comments among kernel parameters
				texts = append(texts, text)
			}
		}
	}
	if len(texts) > 0 {
		out[at] = strings.Join(texts, ", ")
	}
}

// maxValue is the length up to which values are shown; longer ones are shown as a digest.
const maxValue = 120

// display formats the value at a path.
func display(key, value string) string {
	if isHash(value) {
		return shortHash(value)
	}
	value = redact.Field(key, value)
	if len(value) <= maxValue && !strings.Contains(value, "\n") {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return fmt.Sprintf("%d bytes, sha256 %x", len(value), sum[:4])
}

// isHash reports whether a value is a SHA-256, in hexadecimal digits or as nodeconfig.Hash writes it.
func isHash(value string) bool {
	data, err := hex.DecodeString(value)
	if err != nil {
		data, err = base64.StdEncoding.DecodeString(value)
	}
	return err == nil && len(data) == sha256.Size
}

// shortHash returns the beginning of a hash, which suffices to distinguish it from others.
func shortHash(hash string) string { return hash[:min(len(hash), 8)] }

// withoutDigest returns the name of an image without its digest.
func withoutDigest(image string) string {
	name, _, _ := strings.Cut(image, "@sha256:")
	return name
}

// sorted returns the keys of two maps, sorted.
func sorted(a, b map[string]string) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Changes returns the differences between two specs of one kind, by field. t has the effects of
// fields.
func Changes(t effects.Table, old, now any) ([]platform.Change, error) {
	have, err := specValues(old)
	if err != nil {
		return nil, err
	}
	want, err := specValues(now)
	if err != nil {
		return nil, err
	}
	var all []Reason
	for _, key := range sorted(have, want) {
		if have[key] != want[key] {
			all = append(all, Reason{key, display(key, have[key]), display(key, want[key]), t.OfAny(key)})
		}
	}
	var out []platform.Change
	for _, r := range withoutBlocks(all) {
		out = append(out, platform.Change{Field: r.Field, Have: r.Have, Want: r.Want})
	}
	return out, nil
}

// specValues returns the values of a spec by their paths.
func specValues(of any) (map[string]string, error) {
	text, err := json.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("read the fields of a spec: %w", err)
	}
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("read the fields of a spec: %w", err)
	}
	out := map[string]string{}
	flatten(out, "spec", doc)
	return out, nil
}
