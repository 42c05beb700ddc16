package terraform

import (
	"strings"

	"kops.local/kops/internal/resource"
)

// label is a node's name in Terraform: dots become dashes, slashes two of them,
// colons underscores, anything else that is not allowed an underscore. A name
// that may not begin one is put behind the type without its provider.
func label(a resource.Address) string {
	first := a.Name[0]
	out := identifier(a.Name)
	if first != '_' && !isLetter(rune(first)) {
		_, noun, _ := strings.Cut(a.Kind, "_")
		return noun + "-" + out
	}
	return out
}

// identifier replaces what a Terraform name must not hold.
func identifier(name string) string {
	name = strings.NewReplacer(".", "-", "/", "--").Replace(name)
	return strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || isLetter(r) {
			return r
		}
		return '_'
	}, name)
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// dataName is the start of the names of a node's files: they keep dots, lose
// colons, and hold no separator of folders.
func dataName(a resource.Address) string {
	return "data/" + a.Kind + "_" + strings.NewReplacer(":", "", "/", "--").Replace(a.Name)
}
