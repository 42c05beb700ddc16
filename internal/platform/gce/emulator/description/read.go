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
	"sort"
	"strings"
)

//go:embed documents
var documents embed.FS

// names are the documents, each of one API.
var names = []string{"compute", "iam", "cloudresourcemanager", "dns", "storage"}

// Schema is the shape of a value, or of a parameter, as JSON schema draft 3 says it.
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
	// Annotations.Required are the ids of the methods that need the field.
	Annotations struct {
		Required []string `json:"required"`
	} `json:"annotations"`

	// Location, Required and Repeated are of parameters: path or query.
	Location string `json:"location"`
	Required bool   `json:"required"`
	Repeated bool   `json:"repeated"`

	pattern *regexp.Regexp
}

// Method is one that an API has.
type Method struct {
	// ID is its name in all of Google's APIs, such as compute.networks.insert.
	ID         string
	Verb       string
	Parameters map[string]*Schema
	// Request and Response are nil where there is no body.
	Request, Response *Schema

	flat, path *regexp.Regexp
	variables  []string
	literals   int // of the path, in bytes: the method whose path says more is meant
}

// APIs are all that are described.
type APIs struct {
	methods []*Method
	byID    map[string]*Method
}

// method is one as a document says it.
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

// Read reads the documents. An error is a fault of this package.
func Read() (*APIs, error) {
	a := &APIs{byID: map[string]*Method{}}
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
	sort.Slice(a.methods, func(i, j int) bool { return a.methods[i].literals > a.methods[j].literals })
	return a, nil
}

// link replaces each reference to a schema by the schema. What is said where it is
// referred to, such as that it is read only, holds there.
func (d *document) link() error {
	for _, s := range d.Schemas {
		if err := d.within(s); err != nil {
			return err
		}
	}
	for _, s := range d.Parameters {
		if err := d.within(s); err != nil {
			return err
		}
	}
	return nil
}

func (d *document) within(s *Schema) error {
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
		if err := d.within(p); err != nil {
			return err
		}
	}
	if err := d.within(s.Items); err != nil {
		return err
	}
	return d.within(s.Additional)
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
				if err := d.within(s); err != nil {
					return err
				}
			}
			for _, s := range []*Schema{m.Request, m.Response} {
				if err := d.within(s); err != nil {
					return err
				}
			}
			if m.FlatPath == "" {
				m.FlatPath = m.Path
			}
			var err error
			if made.flat, _, err = compile(d.ServicePath + m.FlatPath); err != nil {
				return err
			}
			if made.path, made.variables, err = compile(d.ServicePath + m.Path); err != nil {
				return err
			}
			made.literals = len(variable.ReplaceAllString(m.FlatPath, ""))
			a.methods = append(a.methods, made)
			a.byID[m.ID] = made
		}
		if err := a.add(d, r.Resources); err != nil {
			return err
		}
	}
	return nil
}

var variable = regexp.MustCompile(`\{\+?\w+\}`)

// compile makes an expression of the template of a path: {x} stands for a segment, or for
// what is before the colon of a verb in it, and {+x} for any number of segments.
func compile(template string) (*regexp.Regexp, []string, error) {
	var out strings.Builder
	var names []string
	out.WriteString("^/")
	at := 0
	for _, m := range variable.FindAllStringIndex(template, -1) {
		out.WriteString(regexp.QuoteMeta(template[at:m[0]]))
		name := strings.Trim(template[m[0]:m[1]], "{}")
		if rest, ok := strings.CutPrefix(name, "+"); ok {
			name = rest
			out.WriteString("(.+)")
		} else {
			out.WriteString("([^/]+)")
		}
		names = append(names, name)
		at = m[1]
	}
	out.WriteString(regexp.QuoteMeta(template[at:]) + "$")
	r, err := regexp.Compile(out.String())
	return r, names, err
}

// Method returns the method of an id, or nil.
func (a *APIs) Method(id string) *Method { return a.byID[id] }

// IDs are those of all methods, in order.
func (a *APIs) IDs() []string {
	var out []string
	for id := range a.byID {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// Find returns the method that a verb of HTTP and an escaped path mean, with the variables
// of the path. It is nil where none is meant; elsewhere then tells whether the path has
// methods with other verbs.
func (a *APIs) Find(verb, path string) (m *Method, variables map[string]string, elsewhere bool) {
	for _, m := range a.methods {
		if !m.flat.MatchString(path) {
			continue
		}
		found := m.path.FindStringSubmatch(path)
		if found == nil {
			continue
		}
		if m.Verb != verb {
			elsewhere = true
			continue
		}
		variables = map[string]string{}
		for i, name := range m.variables {
			plain, err := url.PathUnescape(found[i+1])
			if err != nil {
				plain = found[i+1]
			}
			variables[name] = plain
		}
		return m, variables, false
	}
	return nil, nil, elsewhere
}
