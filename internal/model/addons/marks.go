package addons

import (
	"fmt"
	"strings"

	"kops.local/kops/internal/engine/resource"
)

// marks are placeholders in a text that is written as YAML, for values that are not known before
// other resources exist.
type marks struct{ values []resource.Value }

// mark returns the i-th placeholder, which YAML neither quotes nor breaks.
func mark(i int) string { return fmt.Sprintf("later-value-%d-of-this-file", i) }

// text returns the text of a value, with placeholders for its parts that are not known.
func (m *marks) text(v resource.Value) string {
	add := func(v resource.Value) string {
		m.values = append(m.values, v)
		return mark(len(m.values) - 1)
	}
	return v.Render(
		func(s string) string { return s },
		func(a resource.Address, attr string) string { return add(resource.Out(a, attr)) },
		func(of resource.Value) string { return add(resource.SHA256(of)) })
}

// value returns a text with the values in the place of their placeholders.
func (m *marks) value(text string) resource.Value {
	var parts []resource.Value
	for text != "" {
		at, which := len(text), -1
		for i := range m.values {
			if n := strings.Index(text, mark(i)); n >= 0 && n < at {
				at, which = n, i
			}
		}
		parts = append(parts, resource.Lit(text[:at]))
		if which < 0 {
			break
		}
		parts = append(parts, m.values[which])
		text = text[at+len(mark(which)):]
	}
	return resource.Concat(parts...)
}
