// Package terraform renders a desired graph as a Terraform configuration: a main file,
// kubernetes.tf, and the long texts under data/ that it reads.
//
// It must not know any cloud or Kubernetes: names of resources and attributes come from the kinds'
// tags, everything around them from the Document. It never writes to disk.
package terraform

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
)

// MainFile is the name of the file that contains everything but long texts.
const MainFile = "kubernetes.tf"

// Document is what a configuration is created from.
type Document struct {
	// Graph holds the resources. Nodes of Direct kinds are left out. Shared (adopted) nodes, and
	// those that are expected to exist, are not written: references to their identifier, or to an
	// output that is set in their Want, become literals; a reference to any other attribute creates
	// a data source.
	Graph *graph.Graph
	// Outputs are the module's outputs by name. Each becomes a local value as well.
	Outputs map[string]Expression
	// Data specifies how an existing node is looked up if a data source is needed for it; without
	// an entry, a shared one is looked up by id = its identifier.
	Data map[resource.Address]Lookup
	// Providers are the provider blocks, in this order.
	Providers []Provider
	// Compatible leaves out what kOps never writes: depends_on for an order that no reference
	// implies, and the lifecycle of kinds that create first. A user who switches tools then sees no
	// difference.
	Compatible bool
	// RequiredVersion is the constraint on Terraform itself.
	RequiredVersion string
	// RequiredProviders are the providers' sources and version constraints by local name.
	RequiredProviders map[string]RequiredProvider
}

// Lookup finds an existing resource, which is not written.
type Lookup struct {
	// By are the arguments of its data source, written as quoted strings.
	By map[string]string
	// Tags, if any, are the argument "tags": those of the resource.
	Tags map[string]string
	// Known are attributes that need no data source, or whose value differs from the resource's in
	// a data source; for a shared node also the identifier, if the provider spells it differently.
	Known map[string]string
}

// arguments returns the data source's arguments.
func (l Lookup) arguments() map[string]string {
	out := map[string]string{}
	for name, value := range l.By {
		out[name] = quote(value)
	}
	if len(l.Tags) > 0 {
		tags := map[string]string{}
		for key, value := range l.Tags {
			tags[key] = quote(value)
		}
		out["tags"] = object(tags)
	}
	return out
}

// Provider is one provider block.
type Provider struct {
	Name       string
	Alias      string            // empty for the default configuration
	Attributes map[string]string // written as quoted strings
	// Endpoints are the URLs of services that are not the platform's own, by the provider's name
	// for the service; each provider of the cloud has a block with that name.
	Endpoints map[string]string
}

// RequiredProvider is one entry of required_providers.
type RequiredProvider struct {
	Source  string
	Version string
	// Aliases are the provider configurations that a caller passes in, such as "aws.files".
	Aliases []string
}

// Expression is the value of an output. The zero Expression is the string "".
type Expression struct {
	values []resource.Value
	list   bool
	raw    string
}

// Of returns the expression of one value.
func Of(v resource.Value) Expression { return Expression{values: []resource.Value{v}} }

// List returns the list of the values. The values are a set: they are written sorted by their text,
// without duplicates.
func List(vs ...resource.Value) Expression { return Expression{values: vs, list: true} }

// Raw returns an expression in Terraform's language.
func Raw(text string) Expression { return Expression{raw: text} }

// Render returns the files of the configuration by their slash-separated names: MainFile and
// data/…. Equal documents give equal files. It fails if a resource would reveal a secret, and on a
// reference that cannot be written.
func Render(doc Document) (map[string][]byte, error) {
	w, err := newWriter(doc)
	if err != nil {
		return nil, err
	}
	out := hclwrite.NewEmptyFile()
	top := section{body: out.Body()}
	for _, write := range []func(*section) error{w.outputs, w.providers, w.resources, w.dataSources, w.settings} {
		if err := write(&top); err != nil {
			return nil, err
		}
	}
	w.files[MainFile] = hclwrite.Format(out.Bytes())
	return w.files, nil
}

// section adds top-level blocks, separated by empty lines.
type section struct {
	body *hclwrite.Body
	some bool
}

func (s *section) block(kind string, labels ...string) *hclwrite.Body {
	if s.some {
		s.body.AppendNewline()
	}
	s.some = true
	return s.body.AppendNewBlock(kind, labels).Body()
}

// outputs writes the locals block and the outputs, which repeat it.
func (w *writer) outputs(top *section) error {
	if len(w.doc.Outputs) == 0 {
		return nil
	}
	texts := map[string]string{}
	var errs []error
	for name, e := range w.doc.Outputs {
		text, err := w.output(e)
		if err != nil {
			errs = append(errs, fmt.Errorf("render output %s: %w", name, err))
		}
		texts[symbol(name)] = text
	}
	if len(errs) > 0 {
		return joinSorted(errs)
	}
	locals := top.block("locals")
	for _, name := range sortedKeys(texts) {
		set(locals, name, texts[name])
	}
	for _, name := range sortedKeys(texts) {
		set(top.block("output", name), "value", texts[name])
	}
	return nil
}

func (w *writer) output(e Expression) (string, error) {
	if e.raw != "" {
		return e.raw, nil
	}
	texts := make([]string, len(e.values))
	for i, v := range e.values {
		var err error
		if texts[i], err = w.value(v); err != nil {
			return "", err
		}
	}
	switch {
	case e.list:
		slices.Sort(texts)
		return list(slices.Compact(texts)), nil
	case len(texts) == 0:
		return quote(""), nil
	}
	return texts[0], nil
}

func (w *writer) providers(top *section) error {
	for _, p := range w.doc.Providers {
		attributes := map[string]string{}
		for name, value := range p.Attributes {
			attributes[name] = quote(value)
		}
		if p.Alias != "" {
			attributes["alias"] = quote(p.Alias)
		}
		block := top.block("provider", p.Name)
		setAll(block, attributes)
		if len(p.Endpoints) > 0 {
			urls := map[string]string{}
			for service, url := range p.Endpoints {
				urls[service] = quote(url)
			}
			setAll(block.AppendNewBlock("endpoints", nil).Body(), urls)
		}
	}
	return nil
}

// resources writes the nodes, sorted by type and label.
func (w *writer) resources(top *section) error {
	var errs []error
	for _, a := range w.addresses {
		n, _ := w.get(a)
		if err := w.node(top.block("resource", a.Kind, w.labels[a]), n); err != nil {
			errs = append(errs, fmt.Errorf("render %s: %w", a, err))
		}
	}
	return joinSorted(errs)
}

// dataSources writes the shared nodes that resources written before refer to.
func (w *writer) dataSources(top *section) error {
	for _, a := range w.shared {
		if !w.lookups[a] {
			continue
		}
		n, _ := w.doc.Graph.Get(a)
		by, ok := w.doc.Data[a]
		if !ok {
			by = Lookup{By: map[string]string{"id": n.Adopt}}
		}
		setAll(top.block("data", a.Kind, w.labels[a]), by.arguments())
	}
	return nil
}

// settings writes the terraform block.
func (w *writer) settings(top *section) error {
	if w.doc.RequiredVersion == "" && len(w.doc.RequiredProviders) == 0 {
		return nil
	}
	b := top.block("terraform")
	if w.doc.RequiredVersion != "" {
		set(b, "required_version", quote(w.doc.RequiredVersion))
	}
	if len(w.doc.RequiredProviders) == 0 {
		return nil
	}
	required := b.AppendNewBlock("required_providers", nil).Body()
	for _, name := range sortedKeys(w.doc.RequiredProviders) {
		p := w.doc.RequiredProviders[name]
		attributes := map[string]string{"source": quote(p.Source), "version": quote(p.Version)}
		if len(p.Aliases) > 0 {
			attributes["configuration_aliases"] = list(p.Aliases)
		}
		set(required, name, object(attributes))
	}
	return nil
}

// joinSorted sorts errors, so that equal documents give equal messages.
func joinSorted(errs []error) error {
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}
