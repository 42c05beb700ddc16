package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"kops.local/kops/internal/standin/tree"
)

// Problem is an error in a request or a response.
type Problem struct {
	// Field is its location, such as public_net.ipv4, or a parameter; "" for the whole body.
	Field, Text string
}

func (p *Problem) Error() string {
	if p.Field == "" {
		return p.Text
	}
	return p.Field + ": " + p.Text
}

func problem(at, format string, args ...any) error {
	return &Problem{at, fmt.Sprintf(format, args...)}
}

// Query checks the path variables and the query of a request.
func (o *Operation) Query(variables map[string]string, query url.Values) error {
	for name, value := range variables {
		p, ok := o.parameters["path "+name]
		if !ok {
			return problem(name, "the path has no such variable")
		}
		if err := p.check([]string{value}); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		p, ok := o.parameters["query "+name]
		if !ok {
			return problem(name, "there is no such query parameter")
		}
		if err := p.check(query[name]); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(o.parameters)) {
		if p := o.parameters[key]; p.Required && p.In == "query" && !query.Has(p.Name) {
			return problem(p.Name, "it is required")
		}
	}
	return nil
}

// check checks the values of a parameter.
func (p parameter) check(values []string) error {
	if s := p.Schema.base(); !slices.Contains(s.Type, "array") {
		if len(values) != 1 {
			return problem(p.Name, "it is set %d times", len(values))
		}
		return check([]*schema{p.Schema}, p.Name, parse(s, values[0]))
	} else if p.Explode != nil && !*p.Explode {
		values = strings.Split(strings.Join(values, ","), ",")
	}
	items := tree.List{}
	for _, v := range values {
		items = append(items, parse(p.Schema.base().Items.base(), v))
	}
	return check([]*schema{p.Schema}, p.Name, items)
}

// base returns the schema that a reference leads to, or s itself.
func (s *schema) base() *schema {
	for s != nil && s.to != nil {
		s = s.to
	}
	if s == nil {
		return &schema{}
	}
	return s
}

// parse returns a parameter's value as JSON has it.
func parse(s *schema, value string) any {
	number := slices.Contains(s.Type, "integer") || slices.Contains(s.Type, "number")
	if _, err := strconv.ParseFloat(value, 64); err == nil && number {
		return json.Number(value)
	}
	if b, err := strconv.ParseBool(value); err == nil && slices.Contains(s.Type, "boolean") {
		return b
	}
	return value
}

// Body checks the body of a request, as tree.Decode returns it. Fields that no schema names are errors.
func (o *Operation) Body(v any) error {
	switch {
	case o.raw:
		return nil
	case o.body == nil && v != nil:
		return problem("", "the method has no request body")
	case o.body == nil:
		return nil
	}
	return check([]*schema{o.body}, "", v)
}

// Answer checks a response: its status, and its body as tree.Decode returns it; nil: there is none.
// Fields that no schema names are errors here, too.
func (o *Operation) Answer(status int, v any) error {
	s, listed := o.response(status)
	var err error
	switch {
	case !listed:
		err = problem("", "the status %d is not listed", status)
	case s == nil && v != nil:
		err = problem("", "it has no body, but got %v", v)
	case s != nil:
		err = check([]*schema{s}, "", v)
	}
	if err != nil {
		return fmt.Errorf("response %d of %s: %w", status, o.ID, err)
	}
	return nil
}

// check checks a value against schemas that all apply, and rejects fields that none of them names.
func check(all []*schema, at string, v any) error { return checker{closed: true}.value(all, at, v) }

// checker checks one value.
type checker struct {
	// closed rejects fields that no schema names. In an object without any named fields, all are
	// allowed.
	closed bool
}

// parts are the schemas for the parts of a value, from all the schemas that apply to it.
type parts struct {
	fields map[string][]*schema
	items  []*schema
	// named reports that a schema names the fields that an object has.
	named bool
}

func (c checker) value(all []*schema, at string, v any) error {
	p := parts{fields: map[string][]*schema{}}
	for _, s := range all {
		if err := c.apply(s, at, v, &p); err != nil {
			return err
		}
	}
	switch x := v.(type) {
	case tree.Object:
		for _, name := range slices.Sorted(maps.Keys(x)) {
			in := strings.TrimPrefix(at+"."+name, ".")
			if len(p.fields[name]) == 0 {
				if c.closed && p.named {
					return problem(in, "there is no such field")
				}
				continue
			}
			if err := c.value(p.fields[name], in, x[name]); err != nil {
				return err
			}
		}
	case tree.List:
		for i, item := range x {
			if err := c.value(p.items, fmt.Sprintf("%s[%d]", at, i), item); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply checks a value itself against a schema, and collects the schemas for its parts.
func (c checker) apply(s *schema, at string, v any, p *parts) error {
	if s.never {
		return problem(at, "it is not allowed")
	}
	if s.to != nil {
		if err := c.apply(s.to, at, v, p); err != nil {
			return err
		}
	}
	if err := s.checkSelf(at, v); err != nil {
		return err
	}
	s.collect(v, p)
	for _, sub := range s.AllOf {
		if err := c.apply(sub, at, v, p); err != nil {
			return err
		}
	}
	for _, branches := range [][]*schema{s.AnyOf, s.OneOf} {
		if err := c.choose(branches, at, v, p); err != nil {
			return err
		}
	}
	return nil
}

// choose applies those branches that the value fits; at least one must. (Documents use oneOf as if it
// were anyOf.)
func (c checker) choose(branches []*schema, at string, v any, p *parts) error {
	var closest *Problem
	fits := len(branches) == 0
	for _, b := range branches {
		err := checker{}.value([]*schema{b}, at, v)
		if err == nil {
			fits = true
			if err := c.apply(b, at, v, p); err != nil {
				return err
			}
			continue
		}
		if e, ok := err.(*Problem); ok && (closest == nil || len(e.Field) > len(closest.Field)) { //nolint:errorlint // nothing of this package wraps these
			closest = e
		}
	}
	if !fits {
		return closest
	}
	return nil
}

// collect collects the schemas for the parts of a value.
func (s *schema) collect(v any, p *parts) {
	x, isObject := v.(tree.Object)
	if s.Items != nil {
		p.items = append(p.items, s.Items)
	}
	if !isObject {
		return
	}
	p.named = p.named || s.Properties != nil || s.PatternProperties != nil || s.Additional != nil
	for name := range x {
		known := s.Properties[name] != nil
		if known {
			p.fields[name] = append(p.fields[name], s.Properties[name])
		}
		for pattern, sub := range s.PatternProperties {
			if s.patterns[pattern]().MatchString(name) {
				known = true
				p.fields[name] = append(p.fields[name], sub)
			}
		}
		if !known && s.Additional != nil {
			p.fields[name] = append(p.fields[name], s.Additional)
		}
	}
}

// types are the types of JSON schema.
var types = map[string]func(any) bool{
	"null":    func(v any) bool { return v == nil },
	"object":  func(v any) bool { _, ok := v.(tree.Object); return ok },
	"array":   func(v any) bool { _, ok := v.(tree.List); return ok },
	"string":  func(v any) bool { _, ok := v.(string); return ok },
	"boolean": func(v any) bool { _, ok := v.(bool); return ok },
	"number":  func(v any) bool { _, ok := v.(json.Number); return ok },
	"integer": func(v any) bool {
		n, ok := v.(json.Number)
		f, err := n.Float64()
		return ok && err == nil && f == math.Trunc(f)
	},
}

// checkSelf checks a value without its parts.
func (s *schema) checkSelf(at string, v any) error {
	if len(s.Type) > 0 && !slices.ContainsFunc(s.Type, func(t string) bool { return types[t](v) }) {
		return problem(at, "got %s, which is not of type %s", show(v), strings.Join(s.Type, " or "))
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e any) bool { return tree.Equal(e, v) }) {
		return problem(at, "got %s, which is not one of %s", show(v), show(s.Enum))
	}
	if s.Const != nil && !tree.Equal(*s.Const, v) {
		return problem(at, "got %s, which is not %s", show(v), show(*s.Const))
	}
	switch x := v.(type) {
	case tree.Object:
		for _, name := range s.Required {
			if _, there := x[name]; !there {
				return problem(strings.TrimPrefix(at+"."+name, "."), "it is required")
			}
		}
		return s.checkSize(at, "fields", len(x), s.MinProperties, s.MaxProperties)
	case tree.List:
		for i, item := range x {
			if s.Unique && slices.ContainsFunc(x[:i], func(o any) bool { return tree.Equal(o, item) }) {
				return problem(at, "%s is listed twice", show(item))
			}
		}
		return s.checkSize(at, "items", len(x), s.MinItems, s.MaxItems)
	case string:
		return s.checkText(at, x)
	case json.Number:
		return s.checkNumber(at, x)
	}
	return nil
}

func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

func (s *schema) checkSize(at, what string, n int, least, most *int) error {
	if least != nil && n < *least {
		return problem(at, "it has %d %s; the minimum is %d", n, what, *least)
	}
	if most != nil && n > *most {
		return problem(at, "it has %d %s; the maximum is %d", n, what, *most)
	}
	return nil
}

func (s *schema) checkNumber(at string, v json.Number) error {
	n, err := v.Float64()
	switch {
	case err != nil:
		return problem(at, "got %s, which is not a number", v)
	case s.Minimum != nil && n < *s.Minimum, s.Above != nil && n <= *s.Above:
		return problem(at, "%s is too small", v)
	case s.Maximum != nil && n > *s.Maximum, s.Below != nil && n >= *s.Below:
		return problem(at, "%s is too large", v)
	case s.MultipleOf != nil && math.Mod(n, *s.MultipleOf) != 0:
		return problem(at, "%s is not a multiple of %v", v, *s.MultipleOf)
	}
	return nil
}

var uuid = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
})

// checkText checks a text. Of the formats, it knows those that clients rely on; an empty text has
// each of them.
func (s *schema) checkText(at, text string) error {
	fits := true
	switch s.Format {
	case "date-time":
		_, err := time.Parse(time.RFC3339, text)
		fits = err == nil
	case "uuid":
		fits = uuid().MatchString(text)
	case "ipv4":
		a, err := netip.ParseAddr(text)
		fits = err == nil && a.Is4()
	case "ipv6":
		a, err := netip.ParseAddr(text)
		fits = err == nil && a.Is6()
	}
	if !fits && text != "" {
		return problem(at, "got %q, which does not have the format %s", text, s.Format)
	}
	if s.pattern != nil && !s.pattern().MatchString(text) {
		return problem(at, "got %q, which does not match %s", text, s.Pattern)
	}
	return s.checkSize(at, "characters", utf8.RuneCountInString(text), s.MinLength, s.MaxLength)
}
