package newcluster

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/spec/diag"
)

// Assign returns a copy of an object with fields set (spec.path=value) and unset (spec.path). Paths
// are v1alpha2 paths, or else v1alpha3 paths; an element of a list is [n], all elements are [*]; a
// map key with dots is also in brackets; the kind may precede the path: cluster.spec.path. The text
// of a value is parsed according to the field's type: a list is split at commas. An item of sets
// that is neither a path nor an assignment belongs to the preceding value, because commas also
// separate flags. For a field that does not exist, the finding names the nearest one.
func Assign[T api.Object](o T, sets, unsets []string) (T, diag.List) {
	var findings diag.List
	for _, s := range joinParts(api.Kind(o), sets) {
		path, value, ok := strings.Cut(s, "=")
		if !ok {
			findings = append(findings, bad(s, "", "is not an assignment", "write spec.path=value"))
			continue
		}
		next, err := edit(o, path, readings(value), false)
		if err != nil {
			findings = append(findings, explain(err, path, value))
			continue
		}
		o = next
	}
	for _, path := range unsets {
		next, err := edit(o, path, []any{nil}, true)
		if err != nil {
			findings = append(findings, explain(err, path, ""))
			continue
		}
		o = next
	}
	return o, findings
}

// joinParts returns the assignments, with the parts of their values that were split off at commas:
// items with neither a path nor an equals sign. A trailing comma yields an empty item.
func joinParts(kind string, sets []string) []string {
	var out []string
	for _, s := range sets {
		last := len(out) - 1
		if _, err := parsePath(kind, s); err != nil && s != "" && last >= 0 && !strings.Contains(s, "=") && strings.Contains(out[last], "=") {
			out[last] += "," + s
			continue
		}
		out = append(out, s)
	}
	return out
}

// edit changes one field, to the first of the values that it accepts.
func edit[T api.Object](o T, path string, values []any, remove bool) (T, error) {
	elements, err := parsePath(api.Kind(o), path)
	if err != nil {
		return o, err
	}
	var wrong error
	for _, version := range []string{api.V1Alpha2, api.V1Alpha3} {
		for _, v := range values {
			next, err := editIn(version, o, elements, v, remove)
			if err == nil {
				return next, nil
			}
			if wrong == nil || better(err, wrong) {
				wrong = err
			}
		}
	}
	return o, wrong
}

// editIn changes one field of the object, as a document of a version.
func editIn[T api.Object](version string, o T, path []element, value any, remove bool) (T, error) {
	data, err := compat.Encode(version, o)
	if err != nil {
		return o, err
	}
	apply := func(v any, remove bool) (T, error) {
		var doc any
		if err := yaml.Unmarshal(data, &doc); err != nil {
			return o, err
		}
		doc, err := change(doc, path, v, remove)
		if err != nil {
			return o, err
		}
		text, err := yaml.Marshal(doc)
		if err != nil {
			return o, err
		}
		next, _, err := compat.DecodeOne[T](text, compat.Options{Exact: true})
		return next, err
	}
	if remove { // even a missing field must exist in the schema
		if _, err := apply(nil, false); isUnknownField(err) {
			return o, err
		}
	}
	return apply(value, remove)
}

// readings returns what the text of a value may mean, most likely first.
func readings(text string) []any {
	if unquoted, err := strconv.Unquote(text); err == nil {
		return []any{unquoted}
	}
	var values []any
	var parsed any
	if err := yaml.Unmarshal([]byte(text), &parsed); err == nil && text != "" {
		if _, isText := parsed.(string); !isText && parsed != nil {
			values = append(values, parsed)
		}
	}
	values = append(values, text)
	if text == "" {
		return append(values, []any{})
	}
	var texts, scalars []any
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		texts = append(texts, item)
		var scalar any
		if err := yaml.Unmarshal([]byte(item), &scalar); err != nil {
			scalar = item
		}
		scalars = append(scalars, scalar)
	}
	return append(values, texts, scalars)
}

// isUnknownField reports whether the error is about a field that does not exist.
func isUnknownField(err error) bool {
	var list diag.List
	return errors.As(err, &list) && slices.ContainsFunc(list, func(f diag.Finding) bool { return f.Rule == compat.UnknownField })
}

// better reports whether a is more informative than b: an error about an existing field is more
// informative than one about an unknown field.
func better(a, b error) bool { return isUnknownField(b) && !isUnknownField(a) }

// explain returns an error as a finding about the assignment.
func explain(err error, path, value string) diag.Finding {
	var list diag.List
	if errors.As(err, &list) && len(list) > 0 {
		f := list[0]
		f.File, f.Line = "", 0
		if f.Value == "" {
			f.Value = value
		}
		return f
	}
	return bad(path, value, err.Error(), "write spec.path=value; [n] is an element of a list, and [*] is all elements")
}

func bad(path, value, message, remedy string) diag.Finding {
	return diag.Finding{Path: path, Value: value, Rule: "assignment", Message: message, Remedy: remedy}
}
