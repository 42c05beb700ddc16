package bundle

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/download"
)

// State is how one item of a bundle differs from what it is compared with.
type State string

// States of differences.
const (
	Missing State = "missing" // not in the bundle
	More    State = "more"    // only the bundle has it
	Other   State = "other"   // it has another digest, or an architecture is missing
)

// Difference is a file or an image that differs. Digests are "sha256:…", or "" if missing or
// unknown; Lacks lists platforms that the bundle does not hold.
type Difference struct {
	Name  string   `json:"name"`
	State State    `json:"state"`
	Have  string   `json:"have,omitempty"`
	Want  string   `json:"want,omitempty"`
	Lacks []string `json:"lacks,omitempty"`
}

// Diff compares the bundle with another, the desired one.
func (b *Bundle) Diff(with *Bundle) []Difference {
	want := reference{}
	for u, f := range with.contents.Files {
		want[u] = wantedOf{digest: "sha256:" + f.SHA256}
	}
	for n, i := range with.contents.Images {
		want[n] = wantedOf{i.Digest, i.Platforms}
	}
	return b.diff(want)
}

// Missing returns what a Want requires for some architectures and the bundle does not have. Unknown
// digests are not compared, nor are digests of files that were built instead of fetched from their
// publisher.
func (b *Bundle) Missing(w Want, arches []download.Arch) []Difference {
	want := reference{}
	for u, sum := range w.Files {
		of := wantedOf{}
		if f := b.contents.Files[u]; sum != "" && f.Source != Built {
			of.digest = "sha256:" + sum
		}
		want[u] = of
	}
	var platforms []string
	for _, a := range arches {
		platforms = append(platforms, "linux/"+string(a))
	}
	for _, n := range w.Images {
		tagged, digest := splitDigest(n)
		want[b.nameOf(tagged)] = wantedOf{digest, platforms}
	}
	return b.diff(want)
}

// nameOf returns the bundle's name for an image, which may be spelled differently.
func (b *Bundle) nameOf(image string) string {
	if full, err := fullName(image); err == nil && b.names[full] != "" {
		return b.names[full]
	}
	return image
}

// reference is what a bundle is compared with, by URL and by image name.
type reference map[string]wantedOf

type wantedOf struct {
	digest    string // "" matches any
	platforms []string
}

func (b *Bundle) diff(want reference) []Difference {
	have := reference{}
	for u, f := range b.contents.Files {
		have[u] = wantedOf{digest: "sha256:" + f.SHA256}
	}
	for n, i := range b.contents.Images {
		have[n] = wantedOf{i.Digest, i.Platforms}
	}
	var out []Difference
	for n, w := range want {
		h, there := have[n]
		if !there {
			out = append(out, Difference{Name: n, State: Missing, Want: w.digest})
			continue
		}
		lacks := slices.DeleteFunc(slices.Clone(w.platforms), func(p string) bool { return hasPlatform(h.platforms, p) })
		if w.digest != "" && w.digest != h.digest || len(lacks) > 0 {
			out = append(out, Difference{Name: n, State: Other, Have: h.digest, Want: w.digest, Lacks: lacks})
		}
	}
	for _, n := range slices.Sorted(maps.Keys(have)) {
		if _, wanted := want[n]; !wanted {
			out = append(out, Difference{Name: n, State: More, Have: have[n].digest})
		}
	}
	slices.SortFunc(out, func(x, y Difference) int {
		return cmp.Or(cmp.Compare(x.State, y.State), cmp.Compare(x.Name, y.Name))
	})
	return out
}

// hasPlatform reports whether a platform is in the list, in any variant.
func hasPlatform(platforms []string, one string) bool {
	return slices.ContainsFunc(platforms, func(p string) bool { return strings.HasPrefix(p+"/", one+"/") })
}
