package bundle

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/download"
)

// State is how one thing of a bundle differs from what it is compared with.
type State string

// States of differences.
const (
	Missing State = "missing" // the bundle lacks it
	More    State = "more"    // only the bundle has it
	Other   State = "other"   // it has another digest, or lacks an architecture
)

// Difference is a file or an image that differs. Digests are "sha256:…", or "" if there is
// none or it is not known; Lacks are platforms that the bundle does not hold.
type Difference struct {
	Name  string   `json:"name"`
	State State    `json:"state"`
	Have  string   `json:"have,omitempty"`
	Want  string   `json:"want,omitempty"`
	Lacks []string `json:"lacks,omitempty"`
}

// Diff compares the bundle with another, which is what it should be.
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

// Lacks returns what the bundle lacks of a Want for some architectures. Unknown digests are
// not compared, nor digests of files that were built instead of fetched from their publisher.
func (b *Bundle) Lacks(w Want, arches []download.Arch) []Difference {
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
		tagged, digest := pinned(n)
		want[b.named(tagged)] = wantedOf{digest, platforms}
	}
	return b.diff(want)
}

// named is the name that the bundle has for an image, which may be written otherwise.
func (b *Bundle) named(image string) string {
	if full, err := fullName(image); err == nil && b.names[full] != "" {
		return b.names[full]
	}
	return image
}

// reference is what a bundle is compared with, by URL and by name.
type reference map[string]wantedOf

type wantedOf struct {
	digest    string // "": any
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
		lacks := slices.DeleteFunc(slices.Clone(w.platforms), func(p string) bool { return holds(h.platforms, p) })
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

// holds reports whether one of the platforms is the given one, in any variant.
func holds(platforms []string, one string) bool {
	return slices.ContainsFunc(platforms, func(p string) bool { return strings.HasPrefix(p+"/", one+"/") })
}
