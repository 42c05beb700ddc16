package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Document describes an API.
type Document struct {
	byLength map[int][]*Operation // by the number of segments in their path; the most specific first
}

// Operation is a method of a path.
type Operation struct {
	// ID is the method and the path, such as GET /servers/{id}.
	ID string

	segments   []string
	parameters map[string]parameter // by place and name
	// body is nil if requests have none; raw reports that it is not JSON.
	body      *schema
	raw       bool
	responses map[string]*schema // by status, such as 201, 4XX or default; nil: without a body
}

type parameter struct {
	Name     string  `json:"name"`
	In       string  `json:"in"` // path, query or header
	Required bool    `json:"required"`
	Style    string  `json:"style"`
	Explode  *bool   `json:"explode"` // false: a list is one value, with commas
	Schema   *schema `json:"schema"`
}

// content is a body by media type.
type content map[string]struct {
	Schema *schema `json:"schema"`
}

// source is a document as it is written.
type source struct {
	Paths      map[string]map[string]json.RawMessage `json:"paths"`
	Components struct {
		Schemas map[string]*schema `json:"schemas"`
	} `json:"components"`
}

// method is a method as it is written.
type method struct {
	Parameters []parameter `json:"parameters"`
	Body       struct {
		Content content `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Content content `json:"content"`
	} `json:"responses"`
}

// Read parses an OpenAPI 3.1 document, whose references all lead to its own components.
func Read(text []byte) (*Document, error) {
	var s source
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	linked := map[*schema]bool{}
	for name, c := range s.Components.Schemas {
		if err := c.link(s.Components.Schemas, linked); err != nil {
			return nil, fmt.Errorf("the schema %s: %w", name, err)
		}
	}
	d := &Document{byLength: map[int][]*Operation{}}
	for path, methods := range s.Paths {
		var shared []parameter // by all methods of the path
		if text, ok := methods["parameters"]; ok {
			if err := json.Unmarshal(text, &shared); err != nil {
				return nil, fmt.Errorf("the parameters of %s: %w", path, err)
			}
		}
		for verb, text := range methods {
			if verb == "parameters" {
				continue
			}
			o, err := newOperation(strings.ToUpper(verb), path, shared, text)
			if err == nil {
				err = o.link(s.Components.Schemas, linked)
			}
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", verb, path, err)
			}
			d.byLength[len(o.segments)] = append(d.byLength[len(o.segments)], o)
		}
	}
	for _, all := range d.byLength {
		slices.SortFunc(all, func(a, b *Operation) int { return b.literals() - a.literals() })
	}
	return d, nil
}

func newOperation(verb, path string, shared []parameter, text []byte) (*Operation, error) {
	var m method
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	o := &Operation{ID: verb + " " + path, segments: strings.Split(strings.Trim(path, "/"), "/"), parameters: map[string]parameter{}, responses: map[string]*schema{}}
	for _, p := range append(shared[:len(shared):len(shared)], m.Parameters...) {
		if p.Schema == nil {
			return nil, fmt.Errorf("the parameter %s has no schema", p.Name)
		}
		o.parameters[p.In+" "+p.Name] = p
	}
	o.body, o.raw = m.Body.Content.schema()
	for status, r := range m.Responses {
		o.responses[status], _ = r.Content.schema()
	}
	return o, nil
}

// schema returns the schema of a body in JSON, and whether the body is something else.
func (c content) schema() (s *schema, raw bool) {
	if j, ok := c["application/json"]; ok {
		return j.Schema, false
	}
	return nil, len(c) > 0
}

func (o *Operation) link(components map[string]*schema, seen map[*schema]bool) error {
	all := slices.Collect(maps.Values(o.responses))
	for _, p := range o.parameters {
		all = append(all, p.Schema)
	}
	for _, s := range append(all, o.body) {
		if err := s.link(components, seen); err != nil {
			return err
		}
	}
	return nil
}

// literals returns how specific the path is.
func (o *Operation) literals() int {
	n := 0
	for _, s := range o.segments {
		if variable(s) == "" {
			n++
		}
	}
	return n
}

// variable returns the name of the variable that a segment of a path is, or "".
func variable(segment string) string {
	if name, ok := strings.CutPrefix(segment, "{"); ok {
		return strings.TrimSuffix(name, "}")
	}
	return ""
}

// match returns the path variables if the operation matches the path.
func (o *Operation) match(parts []string) (map[string]string, bool) {
	out := map[string]string{}
	for i, s := range o.segments {
		name := variable(s)
		if name == "" && s != parts[i] || name != "" && parts[i] == "" {
			return nil, false
		}
		if name != "" {
			text, err := url.PathUnescape(parts[i])
			if err != nil {
				return nil, false
			}
			out[name] = text
		}
	}
	return out, true
}

// Find returns the operation for an HTTP verb and an escaped path below the server's URL, with the
// path variables. If there is none, it returns nil; elsewhere then reports whether the path has
// other methods.
func (d *Document) Find(verb, path string) (o *Operation, variables map[string]string, elsewhere bool) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for _, o := range d.byLength[len(parts)] {
		variables, ok := o.match(parts)
		if !ok {
			continue
		}
		if found, _, _ := strings.Cut(o.ID, " "); found == verb {
			return o, variables, false
		}
		elsewhere = true
	}
	return nil, nil, elsewhere
}

// Operations returns the IDs of all operations, sorted.
func (d *Document) Operations() []string {
	var out []string
	for _, all := range d.byLength {
		for _, o := range all {
			out = append(out, o.ID)
		}
	}
	slices.Sort(out)
	return out
}

// Has reports whether the response with a status can have a field, such as action.
func (o *Operation) Has(status int, field string) bool {
	s, _ := o.response(status)
	return s.has(field)
}

func (s *schema) has(field string) bool {
	if s == nil {
		return false
	}
	named := func(s *schema) bool { return s.has(field) }
	return s.Properties[field] != nil || s.to.has(field) || slices.ContainsFunc(slices.Concat(s.AllOf, s.AnyOf, s.OneOf), named)
}

// response returns the schema of a response, and whether the status is listed.
func (o *Operation) response(status int) (*schema, bool) {
	for _, key := range []string{strconv.Itoa(status), strconv.Itoa(status/100) + "XX", "default"} {
		if s, ok := o.responses[key]; ok {
			return s, true
		}
	}
	return nil, false
}

// Success returns the first status of a success that is listed: 200, 201, 202 or 204; otherwise 0.
func (o *Operation) Success() int {
	for _, status := range []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent} {
		if _, ok := o.responses[strconv.Itoa(status)]; ok {
			return status
		}
	}
	return 0
}
