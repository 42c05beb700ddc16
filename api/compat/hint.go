package compat

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"kops.local/kops/internal/spec/diag"
)

// maxFindings limits the findings of one file.
const maxFindings = 100

// otherWords names the replacements of fields that exist only in other tools, by the end of the path.
var otherWords = map[string]string{
	"spec.preemptible":  "write gcpProvisioningModel: SPOT",
	"spec.instanceType": "did you mean machineType?",
}

// place is a known field of an object.
type place struct {
	name, path string
}

// hint suggests the field that an unknown one was most likely meant to be: one of the same block with
// a similar name, one of the same name elsewhere in the object, or one that shares most of its words.
func (c *checker) hint(name, path string, block *schema) string {
	if len(c.findings) >= maxFindings {
		return "" // it would not be shown
	}
	if remedy, ok := otherWords[strings.TrimPrefix(path, c.root+".")]; ok {
		return remedy
	}
	names := slices.Sorted(maps.Keys(block.fields))
	meant := cmp.Or(diag.Nearest(name, names), c.findElsewhere(name), sharingWords(name, names), c.alongPath(name))
	if meant == "" {
		return ""
	}
	return "did you mean " + meant + "?"
}

// places lists the known fields of the object, without those that are no longer read.
func (c *checker) places() []place {
	if c.knownFields == nil {
		c.top.walk("", func(path string, s *schema) {
			if name := path[strings.LastIndexByte(path, '.')+1:]; s.retired == nil && !strings.HasSuffix(name, "]") && name != path {
				c.knownFields = append(c.knownFields, place{name, path})
			}
		})
		slices.SortFunc(c.knownFields, func(a, b place) int {
			return cmp.Or(cmp.Compare(strings.Count(a.path, "."), strings.Count(b.path, ".")), cmp.Compare(a.path, b.path))
		})
	}
	return c.knownFields
}

// findElsewhere finds a field of the same name, regardless of case and plural, in another block.
// If there are several, it must be the only one that is nearest to the root.
func (c *checker) findElsewhere(name string) string {
	return c.outermost(func(p place) bool { return folded(p.name) == folded(name) })
}

// alongPath finds a field whose path contains every word of the name.
func (c *checker) alongPath(name string) string {
	want := words(name)
	if len(want) < 2 {
		return ""
	}
	return c.outermost(func(p place) bool {
		have := words(p.path)
		return !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(have, w) })
	})
}

// outermost returns the path of the matching field with the fewest enclosing blocks, or "" if there are none or several.
func (c *checker) outermost(fits func(place) bool) string {
	all := c.places()
	i := slices.IndexFunc(all, fits)
	if i < 0 {
		return ""
	}
	depth := strings.Count(all[i].path, ".")
	for _, p := range all[i+1:] {
		if strings.Count(p.path, ".") > depth {
			break
		}
		if fits(p) {
			return ""
		}
	}
	return all[i].path
}

// folded returns a name without case and plural.
func folded(name string) string { return strings.TrimSuffix(strings.ToLower(name), "s") }

// sharingWords returns the name that has the most letters in whole words in common with the
// given name, if these are more than half of both.
func sharingWords(name string, among []string) string {
	best, most := "", 0
	for _, other := range among {
		shared := sharedLetters(words(name), words(other))
		if shared > most && 2*shared > len(name) && 2*shared > len(other) {
			best, most = other, shared
		}
	}
	return best
}

// sharedLetters counts the letters of common words. A word of four letters or more also
// matches a longer one that begins with it: kube and kubernetes.
func sharedLetters(a, b []string) int {
	n := 0
	for _, w := range a {
		i := slices.IndexFunc(b, func(o string) bool {
			short, long := w, o
			if len(short) > len(long) {
				short, long = long, short
			}
			return short == long || len(short) >= 4 && strings.HasPrefix(long, short)
		})
		if i >= 0 {
			n += min(len(w), len(b[i]))
		}
	}
	return n
}

// capital matches the start of a word inside a name: before the last capital of several, and after a lower-case letter.
var capital = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)

// words returns the words of a name or a path, in lower case and without the plural.
func words(name string) []string {
	var out []string
	spaced := capital.ReplaceAllString(name, "$1$3 $2$4")
	for _, w := range strings.FieldsFunc(spaced, func(r rune) bool { return strings.ContainsRune(" .[]-_", r) }) {
		out = append(out, folded(w))
	}
	return out
}

// bounded returns the first findings of a file, and a note on how many more there are.
func bounded(file string, l diag.List) diag.List {
	if len(l) <= maxFindings {
		return l
	}
	rest := l[maxFindings:]
	return append(slices.Clone(l[:maxFindings]), diag.Finding{
		File: file, Line: rest[0].Line, Rule: "more", Message: fmt.Sprintf("%d more findings of this file are not shown", len(rest)), Remedy: "fix the errors above first", Warning: rest.Err() == nil,
	})
}
