package template

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Merge puts values over others: maps are merged, and all else is replaced.
func Merge(under, over map[string]any) map[string]any {
	out := maps.Clone(under)
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range over {
		below, isMap := out[k].(map[string]any)
		if above, ok := v.(map[string]any); ok && isMap {
			v = Merge(below, above)
		}
		out[k] = v
	}
	return out
}

// Parse reads a file of values, YAML or JSON.
func Parse(data []byte) (map[string]any, error) {
	out := map[string]any{}
	if err := yaml.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("it is no map of values: %w", err)
	}
	return out, nil
}

// Set sets values as an argument says: name=value,outer.inner=value,list={a,b},list[1]=b. A
// backslash takes a special character as it is. Values are YAML, or texts where literal is set.
func Set(values map[string]any, argument string, literal bool) error {
	for _, part := range split(argument, ',') {
		path, value, ok := cut(part)
		if !ok {
			return fmt.Errorf("%q sets nothing: write name=value", part)
		}
		v, err := parseValue(value, literal)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		steps, err := parsePath(path)
		if err != nil {
			return err
		}
		if _, err := put(values, steps, v); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// step leads to a value: a key of a map or, where that is "", a place in a list.
type step struct {
	key   string
	index int
}

// maxIndex is the last place in a list that can be set.
const maxIndex = 65536

func parsePath(path string) ([]step, error) {
	var out []step
	for _, part := range split(path, '.') {
		key, rest, _ := strings.Cut(part, "[")
		if key != "" {
			out = append(out, step{key: plain(key)})
		}
		for rest != "" {
			digits, after, ok := strings.Cut(rest, "]")
			n, err := strconv.Atoi(digits)
			if !ok || err != nil || n < 0 || n > maxIndex || after != "" && after[0] != '[' {
				return nil, fmt.Errorf("%q is no path: write name, outer.inner or list[0]", path)
			}
			out = append(out, step{index: n})
			rest = strings.TrimPrefix(after, "[")
		}
	}
	if len(out) == 0 || out[0].key == "" {
		return nil, fmt.Errorf("%q is no path: write name, outer.inner or list[0]", path)
	}
	return out, nil
}

// put sets what steps lead to below a value, and returns that value, which may be a new one.
func put(in any, steps []step, v any) (any, error) {
	if len(steps) == 0 {
		return v, nil
	}
	s := steps[0]
	if s.key != "" {
		m, ok := in.(map[string]any)
		if in != nil && !ok {
			return nil, fmt.Errorf("what %q is to be in is not a map", s.key)
		}
		if m == nil {
			m = map[string]any{}
		}
		below, err := put(m[s.key], steps[1:], v)
		m[s.key] = below
		return m, err
	}
	list, ok := in.([]any)
	if in != nil && !ok {
		return nil, fmt.Errorf("what [%d] is to be in is not a list", s.index)
	}
	for len(list) <= s.index {
		list = append(list, nil)
	}
	below, err := put(list[s.index], steps[1:], v)
	list[s.index] = below
	return list, err
}

// parseValue reads a value, or a list of them: {a,b}.
func parseValue(text string, literal bool) (any, error) {
	if !strings.HasPrefix(text, "{") || !strings.HasSuffix(text, "}") {
		return scalar(text, literal)
	}
	out := []any{}
	inner := text[1 : len(text)-1]
	if inner == "" {
		return out, nil
	}
	for _, part := range split(inner, ',') {
		v, err := scalar(part, literal)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func scalar(text string, literal bool) (any, error) {
	text = plain(text)
	if literal {
		return text, nil
	}
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		return nil, fmt.Errorf("%q is no YAML: %w", text, err)
	}
	return v, nil
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

// split divides a text at a character that is neither in braces nor after a backslash.
func split(text string, at rune) []string {
	var out []string
	var part strings.Builder
	depth, quoted := 0, false
	for _, r := range text {
		switch {
		case quoted:
			quoted = false
		case r == '\\':
			quoted = true
		case r == '{':
			depth++
		case r == '}':
			depth--
		case r == at && depth == 0:
			out = append(out, part.String())
			part.Reset()
			continue
		}
		part.WriteRune(r)
	}
	return append(out, part.String())
}

// cut divides name=value.
func cut(text string) (name, value string, ok bool) {
	parts := split(text, '=')
	if len(parts) < 2 || parts[0] == "" {
		return "", "", false
	}
	return parts[0], strings.Join(parts[1:], "="), true
}

// plain removes the backslashes before special characters.
func plain(text string) string {
	var out strings.Builder
	quoted := false
	for _, r := range text {
		if r == '\\' && !quoted {
			quoted = true
			continue
		}
		quoted = false
		out.WriteRune(r)
	}
	return out.String()
}
