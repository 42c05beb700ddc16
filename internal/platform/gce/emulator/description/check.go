package description

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Problem is an error in a value, in Google's words.
type Problem struct {
	// Field is the location, such as resource.name. Reason is invalid or required.
	Field, Reason, Text string
}

func (p *Problem) Error() string { return p.Text }

func invalid(field, format string, args ...any) *Problem {
	return &Problem{Field: field, Reason: "invalid", Text: fmt.Sprintf(format, args...)}
}

// Query checks the path variables and the query of a request, and returns all of them in one map.
// The values of a repeated parameter are joined by commas.
func (m *Method) Query(variables map[string]string, query url.Values) (map[string]string, error) {
	out := map[string]string{}
	for name, value := range variables {
		if err := m.parameter(name, "path", value); err != nil {
			return nil, err
		}
		out[name] = value
	}
	for _, name := range sorted(query) {
		s := m.Parameters[name]
		if s == nil || s.Location == "path" {
			return nil, invalid(name, "Invalid JSON payload received. Unknown name %q: Cannot bind query parameter. Field '%s' could not be found in request message.", name, name)
		}
		if len(query[name]) > 1 && !s.Repeated {
			return nil, invalid(name, "Invalid value for field '%s': it is set %d times.", name, len(query[name]))
		}
		for _, value := range query[name] {
			if err := m.parameter(name, "query", value); err != nil {
				return nil, err
			}
		}
		out[name] = strings.Join(query[name], ",")
	}
	for _, name := range sorted(m.Parameters) {
		if _, ok := out[name]; !ok && m.Parameters[name].Required {
			return nil, &Problem{Field: name, Reason: "required", Text: fmt.Sprintf("Required parameter '%s' not specified", name)}
		}
	}
	return out, nil
}

func (m *Method) parameter(name, where, value string) error {
	s := m.Parameters[name]
	if s == nil || s.Location != where {
		return invalid(name, "there is no parameter %s in the %s of %s", name, where, m.ID)
	}
	var v any = value
	switch s.Type {
	case "integer":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return invalid(name, "Invalid value for field '%s': '%s'. Must be a number.", name, value)
		}
		v = n
	case "boolean":
		b, err := strconv.ParseBool(value)
		if err != nil {
			return invalid(name, "Invalid value for field '%s': '%s'. Must be true or false.", name, value)
		}
		v = b
	}
	_, err := (&checker{method: m}).value(s, name, v)
	return err
}

// Body checks the body of a request, as decoded by encoding/json into an any with UseNumber, and
// returns it with the described types: int64 and float64 for numbers, and strings for 64-bit
// integers. Nulls are kept in a patch, and otherwise dropped. Read-only fields are dropped in
// updates. In creations they are rejected, unless they have their only possible value, such as a
// kind: Google is less strict, and ignores them there, too.
func (m *Method) Body(v any) (any, error) {
	if m.Request == nil {
		return nil, nil
	}
	if v == nil {
		v = map[string]any{}
	}
	back := m.Verb == "PATCH" || m.Verb == "PUT"
	return (&checker{method: m, request: true, drops: back, nulls: m.Verb == "PATCH"}).value(m.Request, "resource", v)
}

// Answer checks a response.
func (m *Method) Answer(v any) error {
	if m.Response == nil {
		if v != nil {
			return fmt.Errorf("%s has no response, but got %v", m.ID, v)
		}
		return nil
	}
	if _, err := (&checker{method: m}).value(m.Response, "answer", v); err != nil {
		return fmt.Errorf("response of %s: %w", m.ID, err)
	}
	return nil
}

// checker checks one value.
type checker struct {
	method *Method
	// request reports that the value is in a request: read-only fields are dropped or rejected,
	// nulls kept or dropped.
	request, drops, nulls bool
}

func (j *checker) value(s *Schema, at string, v any) (any, error) {
	switch s.Type {
	case "object":
		return j.object(s, at, v)
	case "array":
		list, ok := v.([]any)
		if !ok {
			return nil, j.typeError(s, at, v)
		}
		out := make([]any, 0, len(list))
		for i, item := range list {
			w, err := j.value(s.Items, fmt.Sprintf("%s[%d]", at, i), item)
			if err != nil {
				return nil, err
			}
			out = append(out, w)
		}
		return out, nil
	case "boolean":
		if _, ok := v.(bool); !ok {
			return nil, j.typeError(s, at, v)
		}
		return v, nil
	case "integer", "number":
		return j.number(s, at, v)
	case "string":
		return j.text(s, at, v)
	case "any":
		return v, nil
	}
	return nil, fmt.Errorf("%s: the description has a type %q", at, s.Type)
}

func (j *checker) typeError(s *Schema, at string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	kind := s.Type
	if s.Format != "" {
		kind = s.Format
	}
	return invalid(at, "Invalid value at '%s' (TYPE_%s), %s", at, strings.ToUpper(kind), text)
}

func (j *checker) object(s *Schema, at string, v any) (any, error) {
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, j.typeError(s, at, v)
	}
	out := map[string]any{}
	for _, name := range sorted(fields) {
		field, in := fields[name], at+"."+name
		sub := s.Properties[name]
		if sub == nil {
			sub = s.Additional
		}
		switch {
		case sub == nil && s.Properties == nil && s.Format == "google.protobuf.Any":
			out[name] = field
			continue
		case sub == nil:
			return nil, invalid(in, "Invalid JSON payload received. Unknown name %q at '%s': Cannot find field.", name, at)
		case j.request && field == nil:
			if j.nulls {
				out[name] = nil
			}
			continue
		case j.request && sub.ReadOnly:
			if !j.drops && field != sub.Default {
				return nil, invalid(in, "Invalid value for field '%s': '%v'. The field is output only.", in, field)
			}
			continue
		}
		w, err := j.value(sub, in, field)
		if err != nil {
			return nil, err
		}
		out[name] = w
	}
	if j.request {
		for _, name := range sorted(s.Properties) {
			if _, there := out[name]; !there && slices.Contains(s.Properties[name].Annotations.Required, j.method.ID) {
				return nil, &Problem{Field: at + "." + name, Reason: "required", Text: fmt.Sprintf("Required field '%s.%s' not specified", at, name)}
			}
		}
	}
	return out, nil
}

// bounds are the smallest and largest integers of formats.
var bounds = map[string][2]float64{"int32": {math.MinInt32, math.MaxInt32}, "uint32": {0, math.MaxUint32}}

func (j *checker) number(s *Schema, at string, v any) (any, error) {
	var n float64
	switch x := v.(type) {
	case json.Number:
		f, err := x.Float64()
		if err != nil {
			return nil, j.typeError(s, at, v)
		}
		n = f
	case int64:
		n = float64(x)
	default:
		return nil, j.typeError(s, at, v)
	}
	if s.Type == "number" {
		return n, nil
	}
	if b, ok := bounds[s.Format]; n != math.Trunc(n) || ok && (n < b[0] || n > b[1]) {
		return nil, j.typeError(s, at, v)
	}
	return int64(n), nil
}

func (j *checker) text(s *Schema, at string, v any) (any, error) {
	if n, ok := v.(json.Number); ok && (s.Format == "int64" || s.Format == "uint64") {
		v = n.String()
	}
	text, ok := v.(string)
	if !ok {
		return nil, j.typeError(s, at, v)
	}
	var err error
	switch s.Format {
	case "int64":
		_, err = strconv.ParseInt(text, 10, 64)
	case "uint64":
		_, err = strconv.ParseUint(text, 10, 64)
	case "byte":
		if _, err = base64.StdEncoding.DecodeString(text); err != nil {
			_, err = base64.URLEncoding.DecodeString(text)
		}
	case "google-datetime", "date-time":
		_, err = time.Parse(time.RFC3339, text)
	case "google-duration":
		_, err = time.ParseDuration(text)
	}
	if err != nil {
		return nil, j.typeError(s, at, v)
	}
	if s.pattern != nil && !s.pattern.MatchString(text) {
		return nil, invalid(at, "Invalid value for field '%s': '%s'. Must be a match of regex '%s'", at, text, s.Pattern)
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, text) {
		return nil, invalid(at, "Invalid value for field '%s': '%s'. Must be one of %s.", at, text, strings.Join(s.Enum, ", "))
	}
	return v, nil
}

// Complete sets the field kind, which the server sets, in an object and everything inside it, where
// the description defines its value.
func (s *Schema) Complete(v any) {
	switch x := v.(type) {
	case map[string]any:
		for name, sub := range s.Properties {
			if name == "kind" && sub.Default != "" {
				x[name] = sub.Default
			} else if field, ok := x[name]; ok {
				sub.Complete(field)
			}
		}
		if s.Additional != nil {
			for _, field := range x {
				s.Additional.Complete(field)
			}
		}
	case []any:
		for _, item := range x {
			if s.Items != nil {
				s.Items.Complete(item)
			}
		}
	}
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
