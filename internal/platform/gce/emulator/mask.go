package emulator

import "strings"

// selectFields returns the parts of a response that the fields parameter selects: names separated by
// commas, with nested fields after a slash or in parentheses, such as
// items(name,disks/source),nextPageToken. See
// https://cloud.google.com/compute/docs/api/how-tos/performance.
func selectFields(v any, fields string) any {
	switch x := v.(type) {
	case list:
		out := list{}
		for _, item := range x {
			out = append(out, selectFields(item, fields))
		}
		return out
	case []object:
		out := list{}
		for _, item := range x {
			out = append(out, selectFields(item, fields))
		}
		return out
	case object:
		out := object{}
		for key, sub := range x {
			var inner []string
			asked, whole := false, false
			for _, f := range splitFields(fields) {
				name, rest := f, ""
				if i := strings.IndexAny(f, "/("); i >= 0 {
					name, rest = f[:i], f[i+1:]
					if f[i] == '(' {
						rest = strings.TrimSuffix(rest, ")")
					}
				}
				if name == key || name == "*" {
					asked, whole = true, whole || rest == ""
					inner = append(inner, rest)
				}
			}
			switch {
			case whole:
				out[key] = sub
			case asked:
				out[key] = selectFields(sub, strings.Join(inner, ","))
			}
		}
		return out
	}
	return v
}

// splitFields splits a text at the commas that are not in parentheses.
func splitFields(s string) []string {
	var out []string
	depth, from := 0, 0
	for i, c := range s {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			out = append(out, s[from:i])
			from = i + 1
		}
	}
	return append(out, s[from:])
}
