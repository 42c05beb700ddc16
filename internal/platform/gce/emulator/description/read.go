package description

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed documents
var documents embed.FS

// names are the documents; each describes one API.
var names = []string{"compute", "iam", "cloudresourcemanager", "dns", "storage"}

// Schema is the schema of a value, or of a parameter, as in JSON schema draft 3.
type Schema struct {
	Ref        string             `json:"$ref"`
	Type       string             `json:"type"`
	Format     string             `json:"format"`
	Enum       []string           `json:"enum"`
	Pattern    string             `json:"pattern"`
	Default    string             `json:"default"`
	ReadOnly   bool               `json:"readOnly"`
	Properties map[string]*Schema `json:"properties"`
	Additional *Schema            `json:"additionalProperties"`
	Items      *Schema            `json:"items"`
	// Annotations.Required are the IDs of the methods that require the field.
	Annotations struct {
		Required []string `json:"required"`
	} `json:"annotations"`

	// Location, Required and Repeated are set for parameters; Location is path or query.
	Location string `json:"location"`
	Required bool   `json:"required"`
	Repeated bool   `json:"repeated"`

	pattern *regexp.Regexp
}

// Method is an API's method.
type Method struct {
	// ID is its ID, unique among all of Google's APIs, such as compute.networks.insert.
	ID         string
	Verb       string
	Parameters map[string]*Schema
	// Request and Response are nil if there is no body.
	Request, Response *Schema

	template string
	segments []segment
	// whole is the variable that matches several segments, and before and after surround it; empty
	// if the variables are in the segments.
	whole, before, after string
}

// segment is a part of a path between slashes: literal text, or a variable and the text after it.
type segment struct{ variable, text string }

// APIs are all described APIs.
type APIs struct {
	byLength map[int][]*Method // by the number of segments in their path; the most specific first
	byID     map[string]*Method
}

// method is a method in a document.
type method struct {
	ID         string             `json:"id"`
	Verb       string             `json:"httpMethod"`
	Path       string             `json:"path"`
	FlatPath   string             `json:"flatPath"`
	Parameters map[string]*Schema `json:"parameters"`
	Request    *Schema            `json:"request"`
	Response   *Schema            `json:"response"`
}

type resource struct {
	Methods   map[string]method   `json:"methods"`
	Resources map[string]resource `json:"resources"`
}

type document struct {
	ServicePath string             `json:"servicePath"`
	Schemas     map[string]*Schema `json:"schemas"`
	Parameters  map[string]*Schema `json:"parameters"`
	Resources   map[string]resource
}

// Read returns the parsed documents, which are parsed only once. An error is a bug in this package.
func Read() (*APIs, error) { return once() }

var once = sync.OnceValues(read)

func read() (*APIs, error) {
	a := &APIs{byLength: map[int][]*Method{}, byID: map[string]*Method{}}
	for _, name := range names {
		packed, err := documents.ReadFile("documents/" + name + ".json.gz")
		if err != nil {
			return nil, err
		}
		text, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, fmt.Errorf("read the description of %s: %w", name, err)
		}
		var d document
		if err := json.NewDecoder(text).Decode(&d); err != nil {
			return nil, fmt.Errorf("read the description of %s: %w", name, err)
		}
		if err := d.link(); err != nil {
			return nil, fmt.Errorf("the description of %s: %w", name, err)
		}
		if err := a.add(&d, d.Resources); err != nil {
			return nil, fmt.Errorf("the description of %s: %w", name, err)
		}
	}
	for _, methods := range a.byLength {
		slices.SortFunc(methods, func(x, y *Method) int { return y.literals() - x.literals() })
	}
	return a, nil
}

// link replaces each reference to a schema by the schema. Attributes next to the reference, such as
// readOnly, are kept.
func (d *document) link() error {
	for _, s := range d.Schemas {
		if err := d.resolveRefs(s); err != nil {
			return err
		}
	}
	for _, s := range d.Parameters {
		if err := d.resolveRefs(s); err != nil {
			return err
		}
	}
	return nil
}

func (d *document) resolveRefs(s *Schema) error {
	if s == nil {
		return nil
	}
	if s.Pattern != "" {
		p, err := regexp.Compile("^(?:" + s.Pattern + ")$")
		if err != nil {
			return err
		}
		s.pattern = p
	}
	if s.Ref != "" {
		to := d.Schemas[s.Ref]
		if to == nil {
			return fmt.Errorf("there is no schema %s", s.Ref)
		}
		s.Type, s.Properties, s.Additional, s.Items = to.Type, to.Properties, to.Additional, to.Items
		return nil
	}
	for _, p := range s.Properties {
		if err := d.resolveRefs(p); err != nil {
			return err
		}
	}
	if err := d.resolveRefs(s.Items); err != nil {
		return err
	}
	return d.resolveRefs(s.Additional)
}

func (a *APIs) add(d *document, resources map[string]resource) error {
	for _, r := range resources {
		for _, m := range r.Methods {
			made := &Method{ID: m.ID, Verb: m.Verb, Parameters: map[string]*Schema{}, Request: m.Request, Response: m.Response}
			for _, parameters := range []map[string]*Schema{d.Parameters, m.Parameters} {
				for name, s := range parameters {
					made.Parameters[name] = s
				}
			}
			for _, s := range m.Parameters {
				if err := d.resolveRefs(s); err != nil {
					return err
				}
			}
			for _, s := range []*Schema{m.Request, m.Response} {
				if err := d.resolveRefs(s); err != nil {
					return err
				}
			}
			if m.FlatPath == "" {
				m.FlatPath = m.Path
			}
			made.parse(d.ServicePath+m.Path, d.ServicePath+m.FlatPath)
			a.byLength[len(made.segments)] = append(a.byLength[len(made.segments)], made)
			a.byID[m.ID] = made
		}
		if err := a.add(d, r.Resources); err != nil {
			return err
		}
	}
	return nil
}

// parse parses a path template: {x} is a variable for one segment, and {+x} for several, which flat
// lists individually.
func (m *Method) parse(path, flat string) {
	m.template = path
	if before, rest, ok := strings.Cut(path, "{+"); ok {
		m.before = before
		m.whole, m.after, _ = strings.Cut(rest, "}")
	}
	for _, part := range strings.Split(flat, "/") {
		s := segment{text: part}
		if rest, ok := strings.CutPrefix(part, "{"); ok {
			s.variable, s.text, _ = strings.Cut(rest, "}")
		}
		m.segments = append(m.segments, s)
	}
}

// Template returns the path without the leading slash, with {x} and {+x} for variables.
func (m *Method) Template() string { return m.template }

func (m *Method) literals() int {
	n := 0
	for _, s := range m.segments {
		n += len(s.text)
	}
	return n
}

// match returns the path variables if the method matches the path.
func (m *Method) match(path string, parts []string) (map[string]string, bool) {
	for i, s := range m.segments {
		if s.variable == "" && parts[i] != s.text || s.variable != "" && (len(parts[i]) <= len(s.text) || !strings.HasSuffix(parts[i], s.text)) {
			return nil, false
		}
	}
	out := map[string]string{}
	for i, s := range m.segments {
		if s.variable != "" {
			out[s.variable] = unescape(strings.TrimSuffix(parts[i], s.text))
		}
	}
	if m.whole != "" {
		return map[string]string{m.whole: unescape(strings.TrimSuffix(strings.TrimPrefix(path, m.before), m.after))}, true
	}
	return out, true
}

// unescape unescapes a part of a path.
func unescape(s string) string {
	if p, err := url.PathUnescape(s); err == nil {
		return p
	}
	return s
}

// Method returns the method with that ID, or nil.
func (a *APIs) Method(id string) *Method { return a.byID[id] }

// IDs returns the IDs of all methods, sorted.
func (a *APIs) IDs() []string {
	var out []string
	for id := range a.byID {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// Find returns the method for an HTTP verb and an escaped path, with the path variables. If there
// is none, it returns nil; elsewhere then reports whether the path has methods with other verbs.
func (a *APIs) Find(verb, path string) (m *Method, variables map[string]string, elsewhere bool) {
	path = strings.TrimPrefix(path, "/")
	parts := strings.Split(path, "/")
	for _, m := range a.byLength[len(parts)] {
		if variables, ok := m.match(path, parts); ok && m.Verb == verb {
			return m, variables, false
		} else if ok {
			elsewhere = true
		}
	}
	return nil, nil, elsewhere
}
