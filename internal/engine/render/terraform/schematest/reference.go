package schematest

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// value checks the references of an expression and evaluates it as far as it is known.
func (c *checker) value(place string, e hclsyntax.Expression) cty.Value {
	vars := map[string]cty.Value{"path": cty.ObjectVal(map[string]cty.Value{"module": cty.StringVal(".")})}
	for _, t := range e.Variables() {
		c.reference(place, t)
		if root := t.RootName(); root != "path" {
			vars[root] = cty.DynamicVal
		}
	}
	v, diags := e.Value(&hcl.EvalContext{Variables: vars, Functions: c.functions()})
	c.diagnose(place, diags)
	return v
}

// reference checks that a traversal leads to something that is declared, and to an existing
// attribute.
func (c *checker) reference(place string, t hcl.Traversal) {
	var steps []string
	for _, s := range t[1:] {
		if a, ok := s.(hcl.TraverseAttr); ok {
			steps = append(steps, a.Name)
		}
	}
	root, kind := t.RootName(), "resource"
	switch {
	case root == "path", root == "count", root == "each":
		return
	case root == "local":
		if len(steps) == 0 || !c.locals[steps[0]] {
			c.problem("%s: local.%s is not declared", place, strings.Join(steps, "."))
		}
		return
	case root == "data" && len(steps) > 0:
		root, kind, steps = steps[0], "data", steps[1:]
	}
	if len(steps) == 0 {
		c.problem("%s: %s is not a reference", place, root)
		return
	}
	address := root + "." + steps[0]
	if kind == "data" {
		address = "data." + address
	}
	if c.objects[address] == nil {
		c.problem("%s: %s is not declared", place, address)
		return
	}
	o, found, _ := c.schema(kind, root)
	if !found || len(steps) == 1 {
		return
	}
	_, isAttribute := o.Block.Attributes[steps[1]]
	_, isBlock := o.Block.Blocks[steps[1]]
	if !isAttribute && !isBlock {
		c.problem("%s: %s has no attribute %s", place, address, steps[1])
	}
}

// functions returns Terraform's functions that rendered files may call. Those that read files read
// the files under test.
func (c *checker) functions() map[string]function.Function {
	text := func() function.Function {
		return function.New(&function.Spec{
			Params: []function.Parameter{{Name: "path", Type: cty.String}},
			Type:   function.StaticReturnType(cty.String),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				_, err := c.open(args[0].AsString())
				return cty.UnknownVal(cty.String), err
			},
		})
	}
	out := map[string]function.Function{
		"file": text(), "filebase64": text(), "templatefile": c.templateFile(),
		"base64encode": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "text", Type: cty.String, AllowUnknown: true}},
			Type:   function.StaticReturnType(cty.String),
			Impl: func([]cty.Value, cty.Type) (cty.Value, error) {
				return cty.UnknownVal(cty.String), nil
			},
		}),
	}
	maps.Copy(out, map[string]function.Function{
		"tonumber": stdlib.MakeToFunc(cty.Number), "regex": stdlib.RegexFunc, "length": stdlib.LengthFunc, "cidrsubnet": cidrSubnet(),
	})
	return out
}

// cidrSubnet checks the known arguments: that the first is a range, and that it can be extended by
// the given bits for the given number.
func cidrSubnet() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "prefix", Type: cty.String, AllowUnknown: true},
			{Name: "newbits", Type: cty.Number}, {Name: "netnum", Type: cty.Number}},
		Type: function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			bits, _ := args[1].AsBigFloat().Int64()
			index, _ := args[2].AsBigFloat().Int64()
			longest := 128
			if args[0].IsKnown() {
				whole, err := netip.ParsePrefix(args[0].AsString())
				if err != nil {
					return cty.NilVal, err
				}
				longest = whole.Addr().BitLen() - whole.Bits()
			}
			if bits < 0 || bits > int64(longest) {
				return cty.NilVal, fmt.Errorf("a range cannot be %d bits longer", bits)
			}
			if index < 0 || bits < 63 && index >= 1<<bits {
				return cty.NilVal, fmt.Errorf("%d bits do not count to %d", bits, index)
			}
			return cty.UnknownVal(cty.String), nil
		},
	})
}

func (c *checker) open(path string) ([]byte, error) {
	name := strings.TrimPrefix(path, "./")
	body, ok := c.files[name]
	if !ok {
		return nil, fmt.Errorf("there is no file %s", name)
	}
	c.read[name] = true
	return body, nil
}

// templateFile checks that the template parses and that its variables are given.
func (c *checker) templateFile() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}, {Name: "vars", Type: cty.DynamicPseudoType, AllowUnknown: true}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			body, err := c.open(args[0].AsString())
			if err != nil {
				return cty.NilVal, err
			}
			e, diags := hclsyntax.ParseTemplate(body, args[0].AsString(), hcl.InitialPos)
			if diags.HasErrors() {
				return cty.NilVal, diags
			}
			var errs []error
			for _, t := range e.Variables() {
				if !args[1].Type().HasAttribute(t.RootName()) {
					errs = append(errs, fmt.Errorf("%s uses %s, which is not given", args[0].AsString(), t.RootName()))
				}
			}
			return cty.UnknownVal(cty.String), errors.Join(errs...)
		},
	})
}
