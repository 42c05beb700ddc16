package schematest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// Validate fails the test for each problem in the files, as Check finds them.
func Validate(tb testing.TB, files map[string][]byte) {
	tb.Helper()
	for _, p := range Check(files) {
		tb.Error(p)
	}
}

// Check returns the mistakes in a configuration, given as its files by their slash-separated names,
// sorted. For resources of providers without a schema here, only the references are checked.
func Check(files map[string][]byte) []string {
	known, err := load()
	if err != nil {
		return []string{err.Error()}
	}
	c := &checker{providers: known, files: files, read: map[string]bool{}, objects: map[string]*hclsyntax.Block{}, locals: map[string]bool{}}
	var bodies []*hclsyntax.Body
	for name, text := range files {
		if !strings.HasSuffix(name, ".tf") {
			continue
		}
		f, diags := hclsyntax.ParseConfig(text, name, hcl.InitialPos)
		c.diagnose(name, diags)
		bodies = append(bodies, f.Body.(*hclsyntax.Body))
	}
	for _, b := range bodies {
		c.declare(b)
	}
	for _, b := range bodies {
		for _, top := range b.Blocks {
			c.top(top)
		}
	}
	for name := range files {
		if strings.HasPrefix(name, "data/") && !c.read[name] {
			c.problem("%s: nothing reads it", name)
		}
	}
	slices.Sort(c.problems)
	return c.problems
}

type checker struct {
	providers map[string]*provider // by name
	files     map[string][]byte
	read      map[string]bool             // files that an expression reads
	objects   map[string]*hclsyntax.Block // resources and data sources by address
	locals    map[string]bool
	problems  []string
}

func (c *checker) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *checker) diagnose(place string, diags hcl.Diagnostics) {
	for _, d := range diags {
		c.problem("%s: %s: %s", place, d.Summary, d.Detail)
	}
}

// declare records the addresses that others may refer to.
func (c *checker) declare(b *hclsyntax.Body) {
	for _, top := range b.Blocks {
		switch top.Type {
		case "resource", "data":
			address := objectAddress(top)
			if c.objects[address] != nil {
				c.problem("%s: declared twice", address)
			}
			c.objects[address] = top
		case "locals":
			for name := range top.Body.Attributes {
				c.locals[name] = true
			}
		}
	}
}

func objectAddress(b *hclsyntax.Block) string {
	address := strings.Join(b.Labels, ".")
	if b.Type == "data" {
		return "data." + address
	}
	return address
}

// schema returns the schema of a resource or data source, and whether the
// provider is one whose schema is known here.
func (c *checker) schema(kind, name string) (o object, found, known bool) {
	of, _, _ := strings.Cut(name, "_")
	p, known := c.providers[of]
	if !known {
		return o, false, false
	}
	from := p.Resources
	if kind == "data" {
		from = p.Data
	}
	o, found = from[name]
	return o, found, true
}

func (c *checker) top(b *hclsyntax.Block) {
	place := b.Type
	switch b.Type {
	case "resource", "data":
		place = objectAddress(b)
		o, found, known := c.schema(b.Type, b.Labels[0])
		if known && !found {
			c.problem("%s: no such type", place)
		}
		for _, l := range b.Labels {
			if !hclsyntax.ValidIdentifier(l) {
				c.problem("%s: %q is not a name", place, l)
			}
		}
		if found {
			c.body(place, b.Body, o.Block, true)
			return
		}
	case "provider":
		place += "." + b.Labels[0]
		if p, known := c.providers[b.Labels[0]]; known {
			c.body(place, b.Body, p.Config.Block, true)
			return
		}
	case "terraform":
		return
	}
	c.expressions(place, b.Body)
}

// expressions checks the expressions of a body whose schema is not known.
func (c *checker) expressions(place string, b *hclsyntax.Body) {
	for name, a := range b.Attributes {
		if name != "provider" {
			c.value(place+"."+name, a.Expr)
		}
	}
	for _, n := range b.Blocks {
		if n.Type != "lifecycle" {
			c.expressions(place+"."+n.Type, n.Body)
		}
	}
}

// meta reports whether an argument is one that every resource, or provider, has.
func meta(name string) bool {
	return slices.Contains([]string{"alias", "count", "depends_on", "for_each", "lifecycle", "provider", "version"}, name)
}

// body checks a body against its schema.
func (c *checker) body(place string, b *hclsyntax.Body, s block, outermost bool) {
	for name, a := range b.Attributes {
		if outermost && meta(name) {
			if name == "depends_on" {
				c.value(place+"."+name, a.Expr)
			}
			continue
		}
		c.argument(place+"."+name, a, s, name)
	}
	for name, a := range s.Attributes {
		if _, given := b.Attributes[name]; a.Required && !given {
			c.problem("%s.%s: required, and missing", place, name)
		}
	}
	count := map[string]int{}
	for _, n := range b.Blocks {
		if outermost && n.Type == "lifecycle" { // every resource may have it
			continue
		}
		inner, ok := s.Blocks[n.Type]
		if !ok {
			_, isArgument := s.Attributes[n.Type]
			c.problem("%s.%s: no such block%s", place, n.Type, hint(isArgument, "; it is an argument"))
			continue
		}
		count[n.Type]++
		c.body(place+"."+n.Type, n.Body, inner.Block, false)
	}
	for name, n := range s.Blocks {
		if got := count[name]; got < n.Min || n.maxBlocks() > 0 && got > n.maxBlocks() {
			c.problem("%s.%s: %d blocks; there must be %d to %d", place, name, got, n.Min, n.maxBlocks())
		}
	}
}

func hint(when bool, text string) string {
	if when {
		return text
	}
	return ""
}

func (c *checker) argument(place string, a *hclsyntax.Attribute, s block, name string) {
	given := c.value(place, a.Expr)
	declared, ok := s.Attributes[name]
	if !ok {
		_, isBlock := s.Blocks[name]
		c.problem("%s: no such argument%s", place, hint(isBlock, "; it is a block"))
		return
	}
	if declared.readOnly() {
		c.problem("%s: it is read-only", place)
		return
	}
	if declared.Required && given.IsNull() {
		c.problem("%s: required, and null", place)
	}
	t, err := ctyjson.UnmarshalType(declared.Type)
	if err != nil {
		c.problem("%s: its type in the schema: %v", place, err)
		return
	}
	c.path(place, given)
	if given != cty.DynamicVal {
		if _, err := convert.Convert(given, t); err != nil {
			c.problem("%s: %v", place, err)
		}
	}
}

// path checks that the file exists whose path an argument is.
func (c *checker) path(place string, given cty.Value) {
	if given.Type() != cty.String || !given.IsKnown() || given.IsNull() || !strings.HasPrefix(given.AsString(), "./data/") {
		return
	}
	if _, err := c.open(given.AsString()); err != nil {
		c.problem("%s: %v", place, err)
	}
}
