package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// schema is a JSON schema (draft 2020-12). A keyword that it does not know is an error, rather than
// a check that is left out.
type schema struct {
	Ref  string   `json:"$ref"`
	Type oneOrAll `json:"type"`
	Enum []any    `json:"enum"`
	// Const is nil if it is not set.
	Const *any `json:"const"`

	Properties        map[string]*schema `json:"properties"`
	PatternProperties map[string]*schema `json:"patternProperties"`
	Additional        *schema            `json:"additionalProperties"`
	Required          []string           `json:"required"`
	MinProperties     *int               `json:"minProperties"`
	MaxProperties     *int               `json:"maxProperties"`

	Items    *schema `json:"items"`
	MinItems *int    `json:"minItems"`
	MaxItems *int    `json:"maxItems"`
	Unique   bool    `json:"uniqueItems"`

	Format    string `json:"format"`
	Pattern   string `json:"pattern"`
	MinLength *int   `json:"minLength"`
	MaxLength *int   `json:"maxLength"`

	Minimum    *float64 `json:"minimum"`
	Maximum    *float64 `json:"maximum"`
	Above      *float64 `json:"exclusiveMinimum"`
	Below      *float64 `json:"exclusiveMaximum"`
	MultipleOf *float64 `json:"multipleOf"`

	AllOf []*schema `json:"allOf"`
	AnyOf []*schema `json:"anyOf"`
	OneOf []*schema `json:"oneOf"`

	// Notes, which check nothing.
	Default       any  `json:"default"`
	Deprecated    bool `json:"deprecated"`
	Description   any  `json:"description"`
	Discriminator any  `json:"discriminator"`
	ReadOnly      bool `json:"readOnly"`
	WriteOnly     bool `json:"writeOnly"`

	// never is the schema false; to is the schema that Ref names; pattern compiles Pattern, and
	// patterns compile the keys of PatternProperties.
	never    bool
	to       *schema
	pattern  func() *regexp.Regexp
	patterns map[string]func() *regexp.Regexp
}

// oneOrAll is a text, or a list of texts.
type oneOrAll []string

// UnmarshalJSON implements json.Unmarshaler.
func (o *oneOrAll) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("[")) {
		return json.Unmarshal(text, (*[]string)(o))
	}
	*o = oneOrAll{""}
	return json.Unmarshal(text, &(*o)[0])
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *schema) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case "true":
		return nil
	case "false":
		s.never = true
		return nil
	}
	type plain schema
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	d.UseNumber()
	return d.Decode((*plain)(s))
}

// refPrefix begins the references to components.
const refPrefix = "#/components/schemas/"

// link resolves the references in a schema, which components define. seen has the schemas that are
// already linked.
func (s *schema) link(components map[string]*schema, seen map[*schema]bool) error {
	if s == nil || seen[s] {
		return nil
	}
	seen[s] = true
	if s.Ref != "" {
		if s.to = components[strings.TrimPrefix(s.Ref, refPrefix)]; s.to == nil {
			return fmt.Errorf("there is no schema %s", s.Ref)
		}
	}
	if s.Pattern != "" {
		s.pattern = compiled(s.Pattern)
	}
	s.patterns = map[string]func() *regexp.Regexp{}
	for p := range s.PatternProperties {
		s.patterns[p] = compiled(p)
	}
	for _, t := range s.Type {
		if types[t] == nil {
			return fmt.Errorf("there is no type %q", t)
		}
	}
	for _, all := range []map[string]*schema{s.Properties, s.PatternProperties, {"": s.Items}, {"": s.Additional}} {
		for _, sub := range all {
			if err := sub.link(components, seen); err != nil {
				return err
			}
		}
	}
	for _, all := range [][]*schema{s.AllOf, s.AnyOf, s.OneOf, {s.to}} {
		for _, sub := range all {
			if err := sub.link(components, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// compiled returns a function that compiles a pattern on first use: documents have hundreds, most of
// which no request needs.
func compiled(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
