// Package facts holds everything that is looked up before a cluster is completed: what a region
// offers and what a shared object is. It is plain data, so that a look-up can be recorded in a file
// and read back, and completion needs no cloud.
//
// It must not know how a fact is looked up, nor what it is used for.
package facts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/contract/download"
)

// Facts are the facts of one cluster: about its cloud and about the
// files and images it runs.
type Facts struct {
	// Clouds are by name. Clouds that were not queried are missing.
	Clouds map[string]*Cloud `json:"clouds,omitempty"`

	// FileHashes are the hexadecimal SHA-256 sums of files, by URL.
	FileHashes map[string]string `json:"fileHashes,omitempty"`
	// ImageDigests are the digests, "sha256:…", of container images, by name with tag.
	ImageDigests map[string]string `json:"imageDigests,omitempty"`
}

// DNSZone is a hosted zone of a DNS service.
type DNSZone struct {
	Name     string   `json:"name"` // without the trailing dot
	ID       string   `json:"id"`   // without a leading path
	Private  bool     `json:"private,omitempty"`
	Networks []string `json:"networks,omitempty"` // that a private zone serves
}

// Parse reads a facts file: YAML or JSON. Unknown fields are rejected.
func Parse(data []byte) (*Facts, error) {
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("read facts: %w", err)
	}
	f := &Facts{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(f)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return nil, fmt.Errorf("read facts: %s must not be a %s", wrong.Field, wrong.Value)
	}
	if err != nil {
		return nil, fmt.Errorf("read facts: %w", err)
	}
	for _, u := range slices.Sorted(maps.Keys(f.FileHashes)) {
		if sum := f.FileHashes[u]; !download.IsSHA256(sum) {
			return nil, fmt.Errorf("read facts: fileHashes[%s]: got %q; write the 64 hexadecimal digits of the file's SHA-256", u, sum)
		}
	}
	return f, nil
}

// Marshal writes a facts file that Parse reads.
func (f *Facts) Marshal() ([]byte, error) {
	data, err := yaml.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("write facts: %w", err)
	}
	return data, nil
}

// FileHash returns the SHA-256 sum of the file at a URL.
func (f *Facts) FileHash(url string) (string, bool) { return Lookup(f.FileHashes, url) }

// ImageDigest returns the digest of a container image.
func (f *Facts) ImageDigest(image string) (string, bool) { return Lookup(f.ImageDigests, image) }

// Lookup finds a name in a map whose keys may be patterns, which a facts file written by hand may
// hold: a star matches any text. The name itself takes precedence, then the longest pattern, then
// the first in order.
func Lookup[T any](m map[string]T, name string) (T, bool) {
	if v, ok := m[name]; ok {
		return v, true
	}
	best, found := "", false
	for k := range m {
		if matches(k, name) && (!found || len(k) > len(best) || len(k) == len(best) && k < best) {
			best, found = k, true
		}
	}
	return m[best], found
}

// matches reports whether a pattern with stars matches the whole name.
func matches(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, head)
	if !ok {
		return false
	}
	for i := range len(name) + 1 {
		if matches(rest, name[i:]) {
			return true
		}
	}
	return false
}
