package emulator

import "strings"

// masked is what the parameter fields asks for of an answer: names that commas part, with what is
// within them after a slash or in parentheses, such as items(name,disks/source),nextPageToken.
// See https://cloud.google.com/compute/docs/api/how-tos/performance.
func masked(v any, fields string) any {
	switch x := v.(type) {
	case list:
		out := list{}
		for _, item := range x {
			out = append(out, masked(item, fields))
		}
		return out
	case []object:
		out := list{}
		for _, item := range x {
			out = append(out, masked(item, fields))
		}
		return out
	case object:
		out := object{}
		for key, sub := range x {
			var inner []string
			asked, whole := false, false
			for _, f := range parted(fields) {
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
				out[key] = masked(sub, strings.Join(inner, ","))
			}
		}
		return out
	}
	return v
}

// parted are the parts between commas that are in no parentheses.
func parted(s string) []string {
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
