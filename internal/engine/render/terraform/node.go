package terraform

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"kops.local/kops/internal/engine/resource"
)

// writer renders one document.
type writer struct {
	doc        Document
	labels     map[resource.Address]string
	addresses  []resource.Address                 // nodes that become resources, in order
	shared     []resource.Address                 // nodes that already exist, in order
	companions map[resource.Address]resource.Node // nodes that are not in the graph
	lookups    map[resource.Address]bool          // nodes that need a data source
	files      map[string][]byte
}

func newWriter(doc Document) (*writer, error) {
	w := &writer{doc: doc, labels: map[resource.Address]string{}, companions: map[resource.Address]resource.Node{}, lookups: map[resource.Address]bool{}, files: map[string][]byte{}}
	owners := map[resource.Address]resource.Address{}
	for _, n := range w.nodes() {
		w.labels[n.Address] = label(n.Address)
		target := &w.addresses
		if !isResource(n) {
			target = &w.shared
		} else {
			spelled := resource.Address{Kind: n.Address.Kind, Name: w.labels[n.Address]}
			if other, taken := owners[spelled]; taken {
				return nil, fmt.Errorf("%s and %s are both %s.%s in Terraform", other, n.Address, spelled.Kind, spelled.Name)
			}
			owners[spelled] = n.Address
		}
		*target = append(*target, n.Address)
	}
	for _, as := range [][]resource.Address{w.addresses, w.shared} {
		slices.SortFunc(as, func(a, b resource.Address) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(w.labels[a], w.labels[b]), cmp.Compare(a.Name, b.Name))
		})
	}
	return w, nil
}

// nodes returns the nodes that Terraform knows: those of the graph, and those in beside.
func (w *writer) nodes() []resource.Node {
	var out []resource.Node
	for n := range w.doc.Graph.All() {
		if n.Kind.KindDirect() {
			continue
		}
		out = append(out, n)
		if !isResource(n) {
			continue
		}
		for _, b := range n.Kind.Companions(n.Address, n.Want) {
			w.companions[b.Address] = b
			out = append(out, b)
		}
	}
	return out
}

// get returns a node of the graph, or one in beside.
func (w *writer) get(a resource.Address) (resource.Node, bool) {
	if n, ok := w.doc.Graph.Get(a); ok {
		return n, true
	}
	n, ok := w.companions[a]
	return n, ok
}

// isResource reports whether the node becomes a resource.
func isResource(n resource.Node) bool { return n.Adopt == "" && !n.Expect && !n.Kind.KindDirect() }

// node writes the contents of a resource block.
func (w *writer) node(to *hclwrite.Body, n resource.Node) error {
	schema := n.Kind.Schema()
	items, err := w.items(reflect.ValueOf(n.Want).Elem(), schema, dataName(n.Address))
	if err != nil {
		return err
	}
	if waits := w.dependsOn(n); len(waits) > 0 {
		items = append(items, item{name: "depends_on", text: list(waits)})
	}
	explicit := slices.ContainsFunc(schema.Fields, func(f resource.Field) bool { return f.Terraform.Name == "lifecycle" })
	if n.Kind.CreatesFirst() && !explicit && !w.doc.Compatible {
		items = append(items, item{name: "lifecycle", block: []item{{name: "create_before_destroy", text: "true"}}})
	}
	writeItems(to, items)
	return nil
}

// dependsOn formats the order that is not implied by references; in a compatible document, only what a node
// needs.
func (w *writer) dependsOn(n resource.Node) []string {
	after := n.Needs
	if !w.doc.Compatible {
		after = slices.Concat(n.After, n.Needs)
	}
	implied := n.Kind.Schema().Refs(n.Want)
	var out []string
	for _, a := range after {
		if before, ok := w.get(a); ok && isResource(before) && !slices.Contains(implied, a) {
			out = append(out, a.Kind+"."+w.labels[a])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// item is an argument, or a nested block if text is empty.
type item struct {
	name  string
	text  string
	block []item
}

// writeItems writes arguments and blocks, mixed, sorted by name; blocks with the same name keep
// their order.
func writeItems(to *hclwrite.Body, items []item) {
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(a.name, b.name) })
	for _, i := range items {
		if i.text != "" {
			set(to, i.name, i.text)
			continue
		}
		writeItems(to.AppendNewBlock(i.name, nil).Body(), i.block)
	}
}

// items formats the fields of a struct that have a Terraform name. file is the prefix of the names
// of files for its long texts.
func (w *writer) items(v reflect.Value, schema *resource.Schema, file string) ([]item, error) {
	var out []item
	for _, f := range schema.Fields {
		a, fv := f.Terraform, v.Field(f.Index)
		if a.Name == "" || f.Mode == resource.Output {
			continue
		}
		explicit := fv.Kind() == reflect.Pointer && !fv.IsNil()
		if !explicit && isZero(fv) && (!a.Zero || fv.Kind() == reflect.Pointer) {
			continue
		}
		name := file + "_" + cmp.Or(a.FileName, a.Name)
		fieldItems, err := w.field(reflect.Indirect(fv), a, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
		out = append(out, fieldItems...)
	}
	return out, nil
}

// field formats one field: an argument, or a block for each struct.
func (w *writer) field(v reflect.Value, a resource.Attribute, file string) ([]item, error) {
	if !a.Block {
		text, err := w.expression(v, a, file)
		return []item{{name: a.Name, text: text}}, err
	}
	blocks := []reflect.Value{v}
	if v.Kind() == reflect.Slice {
		blocks = blocks[:0]
		for i := range v.Len() {
			blocks = append(blocks, reflect.Indirect(v.Index(i)))
		}
	}
	out := make([]item, len(blocks))
	for i, b := range blocks {
		inner, err := w.nested(b, file)
		if err != nil {
			return nil, err
		}
		out[i] = item{name: a.Name, block: inner}
	}
	return out, nil
}

func (w *writer) nested(v reflect.Value, file string) ([]item, error) {
	if v.Kind() != reflect.Struct {
		return nil, fmt.Errorf("a %s cannot be a block", v.Type())
	}
	schema, err := resource.SchemaOf(v.Type())
	if err != nil {
		return nil, err
	}
	return w.items(v, schema, file)
}

// expression formats a field's value as an argument.
func (w *writer) expression(v reflect.Value, a resource.Attribute, file string) (string, error) {
	switch x := v.Interface().(type) {
	case resource.Value:
		if a.Raw {
			return w.rawValue(x)
		}
		return w.content(resource.Text(x), a, file)
	case resource.Content:
		return w.content(x, a, file)
	case string:
		if a.Raw {
			return x, nil
		}
		return w.content(resource.Text(resource.Lit(x)), a, file)
	}
	switch v.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64:
		return fmt.Sprint(v.Interface()), nil
	case reflect.Pointer:
		return w.expression(v.Elem(), a, file)
	case reflect.Slice:
		items := make([]string, v.Len())
		for i := range items {
			var err error
			if items[i], err = w.expression(v.Index(i), a, file); err != nil {
				return "", err
			}
		}
		return list(items), nil
	case reflect.Map:
		values := map[string]string{}
		for _, k := range v.MapKeys() {
			text, err := w.expression(v.MapIndex(k), a, file+"_"+fileName(k.String()))
			if err != nil {
				return "", fmt.Errorf("%s: %w", k, err)
			}
			values[k.String()] = text
		}
		return object(values), nil
	case reflect.Struct:
		return w.structObject(v, file)
	}
	return "", fmt.Errorf("a %s cannot be written as an expression", v.Type())
}

// structObject formats a struct as an argument.
func (w *writer) structObject(v reflect.Value, file string) (string, error) {
	inner, err := w.nested(v, file)
	if err != nil {
		return "", err
	}
	values := map[string]string{}
	for _, i := range inner {
		if i.text == "" {
			return "", fmt.Errorf("block %s inside an argument", i.name)
		}
		values[i.name] = i.text
	}
	return object(values), nil
}

// isZero reports whether a field is left out: it is zero, empty, or a struct of such fields.
func isZero(v reflect.Value) bool {
	switch x := v.Interface().(type) {
	case resource.Value:
		return x.IsZero()
	case resource.Content:
		return x.Value().IsZero() && !digestOnly(x)
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Struct:
		for i := range v.NumField() {
			if !isZero(v.Field(i)) {
				return false
			}
		}
		return true
	}
	return v.IsZero()
}
