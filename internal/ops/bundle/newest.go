package bundle

import (
	"cmp"
	"slices"
	"strings"
)

// byVersion compares two names that differ by version: numbers in them are compared as numbers, so
// that 1.36.10 comes after 1.36.9.
func byVersion(a, b string) int {
	for a != "" && b != "" {
		x, y := number(a), number(b)
		if x == "" || y == "" {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		a, b = a[len(x):], b[len(y):]
		x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// number returns the number with which a text begins, or "".
func number(s string) string {
	end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(s)
	}
	return s[:end]
}

// Named returns the file whose public URL ends with "/" and end. Of several, it prefers those for
// the architecture, and of these the newest; ok is false if there are none.
func (b *Bundle) Named(end, arch string) (url string, ok bool) {
	var found []string
	for u := range b.contents.Files {
		if strings.HasSuffix(u, "/"+end) {
			found = append(found, u)
		}
	}
	own := slices.DeleteFunc(slices.Clone(found), func(u string) bool { return !strings.Contains(u, arch) })
	if len(own) > 0 {
		found = own
	}
	if len(found) == 0 {
		return "", false
	}
	return slices.MaxFunc(found, byVersion), true
}
