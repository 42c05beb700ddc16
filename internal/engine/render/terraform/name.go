package terraform

import (
	"strings"

	"kops.local/kops/internal/engine/resource"
)

// label returns a node's name in Terraform. It must not change: under another name, Terraform would
// consider a resource new, and delete the old one.
func label(a resource.Address) string { return symbol(a.Name) }

// symbol converts a name to Terraform's rules: dots become dashes, slashes two of them, colons
// underscores, anything else that is not allowed an underscore. A name with an invalid first
// character gets a prefix.
func symbol(name string) string {
	first := rune(name[0])
	name = strings.NewReplacer(".", "-", "/", "--").Replace(name)
	name = strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || isLetter(r) {
			return r
		}
		return '_'
	}, name)
	if first != '_' && !isLetter(first) {
		return "prefix_" + name
	}
	return name
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// dataName returns the prefix of the names of a node's files.
func dataName(a resource.Address) string { return "data/" + a.Kind + "_" + fileName(a.Name) }

// fileName turns a name into a file name: it keeps dots, drops colons, and replaces path
// separators.
func fileName(name string) string { return strings.NewReplacer(":", "", "/", "--").Replace(name) }
