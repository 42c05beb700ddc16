package compat

import (
	"regexp"
	"slices"
	"strings"
)

// bracketed matches the indices and keys of a path.
var bracketed = regexp.MustCompile(`\[[^]]*\]`)

// OlderPath returns v1alpha2's path of the field at a path of v1alpha3. Both have
// indices of lists and keys of maps in brackets: spec.networking.subnets[2].cidr is
// spec.subnets[2].cidr.
func OlderPath(kind, path string) string {
	path, _ = Older(kind, path, "")
	return path
}

// Older returns the path in v1alpha2 of the value at a path of v1alpha3, and its form there:
// a number, a string, true, false, or {} for a block without fields.
func Older(kind, path, value string) (string, string) {
	at := bracketed.ReplaceAllString(path, "[]")
	for _, s := range slices.Backward(stepsOf(kind)) {
		if below, ok := strings.CutPrefix(path, s.path+"["+s.new+"]"); ok {
			path = s.path + "[" + s.old + "]" + below
		}
		below, ok := strings.CutPrefix(at, s.path+"."+s.new)
		if !ok || below != "" && !strings.ContainsAny(below[:1], ".[") {
			continue
		}
		if s.change != nil && s.change.down == nil {
			continue
		}
		if s.change != nil && s.change.older != nil {
			below, value = s.change.older(below, value)
		}
		at = s.path + "." + s.old + below
	}
	for _, inside := range bracketed.FindAllString(path, -1) {
		at = strings.Replace(at, "[]", inside, 1)
	}
	return at, value
}
