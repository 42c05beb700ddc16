package emulator

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"kops.local/kops/internal/standin/tree"
)

// base is the prefix of objects' URLs, whatever the request's host.
const base = "https://www.googleapis.com/compute/v1/"

func link(path string) string { return base + path }

var anyBase = pattern(`^https?://[^/]+/compute/(v1|beta)/`)

// pathOf returns the path of a Compute Engine URL; a path is returned unchanged.
func pathOf(url string) string { return anyBase().ReplaceAllString(url, "") }

// scopeOf returns the scope of an object, such as projects/p/zones/z; for a zone itself it is
// global.
func scopeOf(path string) string {
	parts := strings.Split(path, "/")
	if len(parts) > 4 && parts[2] != "global" {
		return strings.Join(parts[:4], "/")
	}
	return strings.Join(parts[:2], "/") + "/global"
}

// regionOf returns the region of a zone.
func regionOf(zone string) string {
	if i := strings.LastIndex(zone, "-"); i >= 0 {
		return zone[:i]
	}
	return zone
}

// newID returns a new ID for an object.
func (e *Emulator) newID() string { return strconv.FormatUint(1e18+e.Random.Uint64N(8e18), 10) }

// resolve checks that the objects that fields refer to exist, and replaces each reference by the
// object's URL. A reference may be a full URL, or a partial one that begins with projects, global,
// regions or zones.
func (c *call) resolve(refs []ref, o object) error {
	for _, r := range refs {
		err := tree.Visit(o, r.field, "resource", func(parent object, field, at string) error {
			path, err := c.resolveReference(tree.Text(parent, field), at, r.to)
			if err != nil {
				return err
			}
			parent[field] = link(path)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// resolveReference returns the path of the object, of one of the kinds, that a URL refers to.
func (c *call) resolveReference(url, at string, kinds []string) (string, error) {
	path := pathOf(url)
	switch first, _, _ := strings.Cut(path, "/"); first {
	case "global", "regions", "zones":
		path = "projects/" + c.params["project"] + "/" + path
	case "projects":
	default:
		return "", invalid(at, url, "The URL is malformed.")
	}
	parts := strings.Split(path, "/")
	fits := func(name string) bool {
		k := c.kinds[name]
		return len(parts) > 3 && parts[len(parts)-2] == k.segment
	}
	if !slices.ContainsFunc(kinds, fits) {
		return "", invalid(at, url, "The URL is malformed.")
	}
	x := c.entries[path]
	switch {
	case x == nil || !slices.Contains(kinds, x.kind.name):
		if strings.Count(at, ".") > 1 {
			return "", invalid(at, url, "The referenced "+c.kinds[kinds[0]].word+" resource cannot be found.")
		}
		return "", notFound(path)
	case !x.created || x.deleting:
		return "", notReady(path)
	}
	return path, nil
}

// refersTo reports whether an object refers to another by its URL.
func refersTo(from object, refs []ref, url string) bool {
	return slices.ContainsFunc(refs, func(r ref) bool { return tree.Has(from, r.field, url) })
}

// usersOf returns the paths of the objects that prevent an object's deletion, sorted.
func (e *Emulator) usersOf(x *entry) []string {
	var out []string
	for path, y := range e.entries {
		if y.kind == nil || y.owner != "" || // it is deleted with its owner
			!slices.Contains(x.kind.users, y.kind.name) {
			continue
		}
		if refersTo(y.o, y.kind.refs, tree.Text(x.o, "selfLink")) || x.kind.name == "addresses" && usesAddress(y, x) {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

// maxLabels is the maximum number of labels of a resource, and maxLabel the maximum length of a key
// or a value, in characters.
const maxLabels, maxLabel = 64, 63

// isLabelKey reports whether a label may have this key.
func isLabelKey(s string) bool {
	first, _ := utf8.DecodeRuneInString(s)
	return isLabelValue(s) && unicode.In(first, unicode.Ll, unicode.Lo)
}

// isLabelValue reports whether a label may have this value.
func isLabelValue(s string) bool {
	foreign := func(r rune) bool { return r != '_' && r != '-' && !unicode.In(r, unicode.Ll, unicode.Lo, unicode.N) }
	return utf8.RuneCountInString(s) <= maxLabel && !strings.ContainsFunc(s, foreign)
}

// checkLabels checks the rules of https://cloud.google.com/compute/docs/labeling-resources.
func checkLabels(at string, labels object) error {
	if len(labels) > maxLabels {
		return refusal(http.StatusBadRequest, "invalid", "Invalid value for field '%s': there are %d labels; the maximum is 64.", at, len(labels))
	}
	for k, v := range labels {
		if !isLabelKey(k) {
			return invalid(at, k, "Label key '"+k+"' violates format constraints. The key must start with a lowercase character, can only contain lowercase letters, numeric characters, underscores and dashes. The key can be at most 63 characters long.")
		}
		if s, _ := v.(string); !isLabelValue(s) {
			return invalid(at, s, "Label value '"+s+"' violates format constraints. The value can only contain lowercase letters, numeric characters, underscores and dashes. The value can be at most 63 characters long.")
		}
	}
	return nil
}
