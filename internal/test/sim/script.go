package sim

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
)

// ParseGraph parses a desired graph, one object per line:
//
//	KIND NAME field=value …        shared=ID for a shared object, expect=true for one that is left unchanged,
//	                        after=KIND/NAME for a predecessor that it does not refer to
//
// Fields are the fields of the kind's struct, in any case; tags.env=a sets one key of a map. A
// value is quoted if it contains spaces, a reference is written @KIND/NAME.ATTR, a list has commas.
func ParseGraph(text string) (*graph.Graph, error) {
	g := &graph.Graph{}
	err := parse(text, func(k resource.Any, name string, fields [][2]string) error {
		want := reflect.New(k.Schema().Type)
		n := resource.Node{Address: resource.Address{Kind: k.KindName(), Name: name}, Kind: k, Want: want.Interface()}
		if f := want.Elem().FieldByName("Name"); f.IsValid() {
			f.SetString(name)
		}
		for _, f := range fields {
			switch f[0] {
			case "shared":
				n.Adopt = f[1]
				continue
			case "expect":
				n.Expect = true
				continue
			case "after":
				kind, name, _ := strings.Cut(f[1], "/")
				n.After = append(n.After, resource.Address{Kind: kind, Name: name})
				continue
			}
			if err := setField(want.Elem(), f[0], f[1]); err != nil {
				return err
			}
		}
		return g.Add(n)
	})
	return g, err
}

// ParseSnapshot parses observed objects, one per line: KIND ID field=value ….
func ParseSnapshot(text string) (plan.Snapshot, error) {
	s := plan.Snapshot{}
	err := parse(text, func(k resource.Any, id string, fields [][2]string) error {
		got := reflect.New(k.Schema().Type)
		got.Elem().FieldByName("ID").SetString(id)
		for _, f := range fields {
			if err := setField(got.Elem(), f[0], f[1]); err != nil {
				return err
			}
		}
		s[k.KindName()] = append(s[k.KindName()], resource.Object{Key: k.KeyOf(got.Interface()), Got: got.Interface()})
		return nil
	})
	return s, err
}

func parse(text string, each func(k resource.Any, name string, fields [][2]string) error) error {
	kinds := map[string]resource.Any{}
	for _, k := range Kinds() {
		kinds[k.KindName()] = k
	}
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if kind == "" || strings.HasPrefix(kind, "#") {
			continue
		}
		name, rest, _ := strings.Cut(rest, " ")
		fields, err := split(rest)
		if err == nil && kinds[kind] == nil {
			err = fmt.Errorf("unknown kind %s", kind)
		}
		if err == nil {
			err = each(kinds[kind], name, fields)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", strings.TrimSpace(line), err)
		}
	}
	return nil
}

// split reads field=value pairs.
func split(text string) (out [][2]string, err error) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		name, rest, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("no value: %s", text)
		}
		var value string
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			value, _ = strconv.Unquote(quoted) // QuotedPrefix has checked it
			text = rest[len(quoted):]
		} else {
			value, text, _ = strings.Cut(rest, " ")
		}
		out = append(out, [2]string{name, value})
	}
	return out, nil
}

func setField(object reflect.Value, name, text string) error {
	name, key, isMap := strings.Cut(name, ".")
	f := object.FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, name) })
	if !f.IsValid() {
		return fmt.Errorf("no field %s", name)
	}
	switch p := f.Addr().Interface().(type) {
	case *string:
		*p = text
	case *bool:
		*p = text == "true"
	case *int:
		n, err := strconv.Atoi(text)
		*p = n
		return err
	case *resource.Content:
		*p = resource.Text(value(text))
	case *resource.Value:
		*p = value(text)
	case *[]resource.Value:
		for item := range strings.SplitSeq(text, ",") {
			*p = append(*p, value(item))
		}
	case *map[string]string:
		if *p == nil {
			*p = map[string]string{}
		}
		(*p)[key] = text
		return nil
	}
	if isMap {
		return fmt.Errorf("%s has no keys", name)
	}
	return nil
}

// value parses a literal or a reference.
func value(text string) resource.Value {
	ref, ok := strings.CutPrefix(text, "@")
	if !ok {
		return resource.Lit(text)
	}
	kind, rest, _ := strings.Cut(ref, "/")
	name, attr, _ := strings.Cut(rest, ".")
	return resource.Out(resource.Address{Kind: kind, Name: name}, attr)
}
