package terraform

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"kops.local/kops/internal/engine/resource"
)

// Expressions are built as text, as the whole file is formatted at the end.

// set writes an attribute whose expression is text.
func set(b *hclwrite.Body, name, text string) {
	b.SetAttributeRaw(name, hclwrite.Tokens{{Type: hclsyntax.TokenIdent, Bytes: []byte(text)}})
}

// setAll writes attributes, sorted by name.
func setAll(b *hclwrite.Body, attributes map[string]string) {
	for _, name := range sortedKeys(attributes) {
		set(b, name, attributes[name])
	}
}

// quote formats a string literal; ${ and %{ in it are escaped.
func quote(s string) string { return string(hclwrite.TokensForValue(cty.StringVal(s)).Bytes()) }

func list(items []string) string { return "[" + strings.Join(items, ", ") + "]" }

// object formats an object whose values are expressions; its keys are quoted.
func object(values map[string]string) string {
	if len(values) == 0 {
		return "{}"
	}
	var b strings.Builder
	b.WriteString("{\n")
	for _, k := range sortedKeys(values) {
		b.WriteString(quote(k) + " = " + values[k] + "\n")
	}
	b.WriteString("}")
	return b.String()
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// piece is a part of a value: a literal text, or the expression of a reference.
type piece struct{ lit, ref string }

// pieces resolves the references of a value. No two literal pieces are adjacent, so that ${ cannot
// be split between them.
func (w *writer) pieces(v resource.Value) ([]piece, error) {
	var out []piece
	var errs []error
	add := func(p piece) {
		last := len(out) - 1
		switch {
		case p == piece{}:
		case last >= 0 && p.ref == "" && out[last].ref == "":
			out[last].lit += p.lit
		default:
			out = append(out, p)
		}
	}
	v.Render(
		func(s string) string { add(piece{lit: s}); return "" },
		func(a resource.Address, attr string) string {
			p, err := w.reference(a, attr)
			if err != nil {
				errs = append(errs, err)
			}
			add(p)
			return ""
		},
		func(of resource.Value) string {
			text, err := w.value(of)
			if err != nil {
				errs = append(errs, err)
			}
			add(piece{ref: "sha256(trimspace(" + text + "))"})
			return ""
		})
	return out, errors.Join(errs...)
}

// reference formats an output of another node. The outputs of the configuration itself may also use
// an attribute that is not an output of the kind, in Terraform's spelling.
func (w *writer) reference(a resource.Address, attr string) (piece, error) {
	n, ok := w.doc.Graph.Get(a)
	if !ok {
		return piece{}, fmt.Errorf("it refers to %s, which is not rendered", a)
	}
	spelled := attr
	if output, ok := n.Kind.Schema().Output(attr); ok {
		spelled = output.Terraform.Name
	}
	target := a.Kind + "." + w.labels[a] + "." + spelled
	if isResource(n) {
		return piece{ref: target}, nil
	}
	lookup, found := w.doc.Data[a]
	if s, ok := lookup.Known[attr]; ok {
		return piece{lit: s}, nil
	}
	if n.Adopt != "" && attr == "id" {
		return piece{lit: n.Adopt}, nil
	}
	if s, ok := n.Kind.Schema().Attr(n.Want, attr); ok && s != "" {
		return piece{lit: s}, nil
	}
	if n.Kind.KindDirect() {
		return piece{}, fmt.Errorf("it refers to %s.%s, which is known only when %s is applied, and that has no Terraform type", a, attr, a)
	}
	if n.Adopt == "" && !found {
		return piece{}, fmt.Errorf("it refers to %s.%s, which is not part of this configuration", a, attr)
	}
	w.lookups[a] = true
	return piece{ref: "data." + target}, nil
}

// value formats a value: a string, a reference, or a template of both.
func (w *writer) value(v resource.Value) (string, error) {
	ps, err := w.pieces(v)
	if err != nil {
		return "", err
	}
	if len(ps) == 1 && ps[0].ref != "" {
		return ps[0].ref, nil
	}
	var b strings.Builder
	for i, p := range ps {
		if p.ref != "" {
			b.WriteString("${" + p.ref + "}")
			continue
		}
		text, dollars := p.lit, ""
		if i+1 < len(ps) {
			text, dollars = cutDollars(p.lit)
		}
		quoted := quote(text)
		b.WriteString(quoted[1:len(quoted)-1] + dollars)
	}
	return `"` + b.String() + `"`, nil
}

// rawValue formats a value whose literal parts are already expressions.
func (w *writer) rawValue(v resource.Value) (string, error) {
	ps, err := w.pieces(v)
	var b strings.Builder
	for _, p := range ps {
		b.WriteString(p.lit + p.ref)
	}
	return b.String(), err
}

// cutDollars removes the $ signs at the end of a literal that is followed by a reference, because
// they would be read as an escape, and returns them as a template.
func cutDollars(s string) (rest, template string) {
	rest = strings.TrimRight(s, "$")
	if rest == s {
		return s, ""
	}
	return rest, `${"` + s[len(rest):] + `"}`
}
