package template

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"kops.local/kops/internal/template"
)

// Set sets values from an argument: name=value,outer.inner=value,list={a,b},list[1]=b. A backslash
// escapes a special character. Integers, true, false and null have their usual types, unless
// literal is set; everything else is text.
func Set(values map[string]any, argument string, literal bool) error {
	for _, part := range split(argument, ',') {
		name, value, ok := splitAssignment(part)
		if !ok {
			return fmt.Errorf("%q sets nothing: write name=value", part)
		}
		v, err := parseValue(value, literal)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		path, err := parsePath(name)
		if err != nil {
			return err
		}
		if _, err := setAt(values, path, v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// step is a step of a path: a key of a map or, if that is "", an index of a list.
type step struct {
	key   string
	index int
}

// maxIndex is the highest index of a list that can be set.
const maxIndex = 65536

// parsePath reads a path: name, outer.inner or list[0].
func parsePath(text string) ([]step, error) {
	wrong := fmt.Errorf("%q is not a path: write name, outer.inner or list[0]", text)
	var out []step
	for _, part := range split(text, '.') {
		key, rest, isList := strings.Cut(part, "[")
		if key == "" {
			return nil, wrong
		}
		out = append(out, step{key: plain(key)})
		for isList {
			digits, after, closed := strings.Cut(rest, "]")
			n, err := strconv.Atoi(digits)
			if !closed || err != nil || n < 0 || n > maxIndex || after != "" && after[0] != '[' {
				return nil, wrong
			}
			out = append(out, step{index: n})
			isList = after != ""
			rest = strings.TrimPrefix(after, "[")
		}
	}
	return out, nil
}

// setAt sets the value at a path below another, and returns the latter, which may be new.
func setAt(in any, path []step, v any) (any, error) {
	if len(path) == 0 {
		return v, nil
	}
	s := path[0]
	if s.key != "" {
		m, ok := in.(map[string]any)
		if in != nil && !ok {
			return nil, fmt.Errorf("%q cannot be set in %s", s.key, template.Kind(reflect.TypeOf(in)))
		}
		if m == nil {
			m = map[string]any{}
		}
		below, err := setAt(m[s.key], path[1:], v)
		if err == nil {
			m[s.key] = below
		}
		return m, err
	}
	list, ok := in.([]any)
	if in != nil && !ok {
		return nil, fmt.Errorf("[%d] cannot be set in %s", s.index, template.Kind(reflect.TypeOf(in)))
	}
	for len(list) <= s.index {
		list = append(list, nil)
	}
	below, err := setAt(list[s.index], path[1:], v)
	if err == nil {
		list[s.index] = below
	}
	return list, err
}

// parseValue reads a value, or a list of them: {a,b}.
func parseValue(text string, literal bool) (any, error) {
	inner, isList := strings.CutPrefix(text, "{")
	if !isList {
		return scalar(text, literal), nil
	}
	inner, closed := strings.CutSuffix(inner, "}")
	if !closed {
		return nil, fmt.Errorf("the list %s does not end with }", text)
	}
	out := []any{}
	for _, part := range split(inner, ',') {
		if inner != "" {
			out = append(out, scalar(part, literal))
		}
	}
	return out, nil
}

// scalar reads a value that is not a list. A number with a leading zero is text.
func scalar(text string, literal bool) any {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case literal:
	case text == "true", text == "false":
		return text == "true"
	case text == "null":
		return nil
	case err == nil && strconv.FormatInt(n, 10) == text:
		return n
	}
	return plain(text)
}

// Get returns the value at a path: name, outer.inner or list[0].
func Get(values map[string]any, path string) (any, bool) {
	steps, err := parsePath(path)
	if err != nil {
		return nil, false
	}
	var at any = values
	for _, s := range steps {
		if s.key != "" {
			m, _ := at.(map[string]any)
			v, ok := m[s.key]
			if !ok {
				return nil, false
			}
			at = v
			continue
		}
		list, _ := at.([]any)
		if s.index >= len(list) {
			return nil, false
		}
		at = list[s.index]
	}
	return at, true
}

// split splits a text at a character that is neither in braces nor after a backslash.
func split(text string, at rune) []string {
	var out []string
	var part strings.Builder
	inBraces, escaped := false, false
	for _, r := range text {
		switch {
		case escaped:
			escaped = false
		case r == '\\':
			escaped = true
		case r == '{':
			inBraces = true
		case r == '}':
			inBraces = false
		case r == at && !inBraces:
			out = append(out, part.String())
			part.Reset()
			continue
		}
		part.WriteRune(r)
	}
	return append(out, part.String())
}

// splitAssignment splits name=value.
func splitAssignment(text string) (name, value string, ok bool) {
	parts := split(text, '=')
	if len(parts) < 2 || parts[0] == "" {
		return "", "", false
	}
	return parts[0], strings.Join(parts[1:], "="), true
}

// plain removes the backslashes before special characters.
func plain(text string) string {
	var out strings.Builder
	escaped := false
	for _, r := range text {
		if r == '\\' && !escaped {
			escaped = true
			continue
		}
		escaped = false
		out.WriteRune(r)
	}
	return out.String()
}
