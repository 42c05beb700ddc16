package resource

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Mode specifies what a change of a field does to an existing object.
type Mode string

const (
	Update    Mode = ""          // changed in place by the kind's Update
	Replace   Mode = "replace"   // needs a new object
	Forbid    Mode = "forbid"    // an error: the user must act
	Default   Mode = "default"   // if zero in want, any value that the cloud chose is accepted
	WriteOnly Mode = "writeonly" // cannot be observed: sent with a create and with every update, never diffed
	Output    Mode = "out"       // set by the cloud; never diffed
)

// Field describes one field of a kind's struct. It comes from the tags
//
//	res:"MODE[,post][,id][,volatile][,ordered][,json][,least][,most]"
//	out:"OUTPUT"
//	tf:"ATTRIBUTE[,zero][,file[=NAME]][,file64[=NAME]][,lines][,path][,block][,raw]"
//
// Terraform's name for an output is the OUTPUT, unless tf sets another.
type Field struct {
	Name  string
	Index int
	Mode  Mode

	Post     bool // a create cannot set it; its setter runs right after
	Identity bool // an output that no other object shares, so that its occurrence elsewhere shows which objects use this one
	Volatile bool // an output that an update may change
	Ordered  bool // a list whose order matters
	JSON     bool // a JSON text: equal when the documents are
	Least    bool // a number that others may exceed: equal when the observed one is not less
	Most     bool // a number that others may fall below: equal when the observed one is not more

	// Output is the name by which others refer to an output; empty if it is not used.
	Output    string
	Terraform Attribute
}

// Attribute specifies how a field is written in Terraform. The zero Attribute is not written.
type Attribute struct {
	Name   string
	Zero   bool // written even when zero
	File   bool // its text goes to a file, read with file()
	File64 bool // its text goes to a file, read with filebase64()
	Lines  bool // its text, or its multi-line items, go to files, read with file()
	Path   bool // its text goes to a file, and the path is written
	Block  bool // a nested block (a list of structs: one block each), not an argument
	Raw    bool // an expression, written without quotes
	// FileName replaces Name in the name of the file; empty means Name.
	FileName string
}

// Schema is what the engine knows about a kind's struct, derived from its tags.
type Schema struct {
	Type   reflect.Type
	Fields []Field
}

// SchemaOf derives the schema of a struct type. Nested structs of a kind have
// schemas as well, for their Terraform spelling and their default fields.
func SchemaOf(t reflect.Type) (*Schema, error) {
	s := &Schema{Type: t}
	for i := range t.NumField() {
		sf := t.Field(i)
		if !sf.IsExported() {
			return nil, fmt.Errorf("%s.%s: unexported field in a resource", t, sf.Name)
		}
		f, err := fieldOf(sf)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t, sf.Name, err)
		}
		f.Index = i
		s.Fields = append(s.Fields, f)
	}
	return s, nil
}

func fieldOf(sf reflect.StructField) (Field, error) {
	mode, options, _ := strings.Cut(sf.Tag.Get("res"), ",")
	f := Field{Name: sf.Name, Mode: Mode(mode)}
	if !slices.Contains([]Mode{Update, Replace, Forbid, Default, WriteOnly, Output}, f.Mode) {
		return f, fmt.Errorf("unknown mode %q", mode)
	}
	err := setOptions(options, map[string]*bool{
		"post": &f.Post, "id": &f.Identity, "volatile": &f.Volatile, "ordered": &f.Ordered, "json": &f.JSON, "least": &f.Least, "most": &f.Most}, nil)
	if err != nil {
		return f, err
	}
	f.Output = sf.Tag.Get("out")
	if f.Output != "" && f.Mode != Output {
		return f, fmt.Errorf("it is not an output, but has the output name %q", f.Output)
	}
	if err := f.spell(sf.Tag.Get("tf")); err != nil {
		return f, err
	}
	f.Terraform.Name = cmp.Or(f.Terraform.Name, f.Output)
	return f, nil
}

// spell sets how the field is written in Terraform, according to a tag.
func (f *Field) spell(tag string) error {
	name, options, _ := strings.Cut(tag, ",")
	f.Terraform = Attribute{Name: name}
	a := &f.Terraform
	return setOptions(options, map[string]*bool{
		"zero": &a.Zero, "file": &a.File, "file64": &a.File64, "lines": &a.Lines, "path": &a.Path, "block": &a.Block, "raw": &a.Raw}, &a.FileName)
}

// respell sets how fields, by name, are written, according to other tags.
func (s *Schema) respell(tags map[string]string) error {
	for name, tag := range tags {
		i := slices.IndexFunc(s.Fields, func(f Field) bool { return f.Name == name })
		if i < 0 {
			return fmt.Errorf("%s has no field %s", s.Type, name)
		}
		if err := s.Fields[i].spell(tag); err != nil {
			return fmt.Errorf("%s.%s: %w", s.Type, name, err)
		}
	}
	return nil
}

// setOptions sets the options that are named; fileName receives NAME of file=NAME.
func setOptions(text string, known map[string]*bool, fileName *string) error {
	for o := range strings.SplitSeq(text, ",") {
		if o == "" {
			continue
		}
		name, value, named := strings.Cut(o, "=")
		p, ok := known[name]
		if !ok || named && (fileName == nil || !strings.HasPrefix(name, "file")) {
			return fmt.Errorf("unknown option %q", o)
		}
		*p = true
		if named {
			*fileName = value
		}
	}
	return nil
}

// eachValue calls f with every Value inside obj, nested ones too. f reports whether it changed the
// Value; nothing is written if it did not, so that objects may be read concurrently.
func eachValue(v reflect.Value, f func(*Value) bool) (changed bool) {
	switch x := v.Addr().Interface().(type) {
	case *Value:
		return f(x)
	case *Content:
		return x.Change(f)
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			changed = eachValue(v.Field(i), f) || changed
		}
	case reflect.Slice:
		for i := range v.Len() {
			changed = eachValue(v.Index(i), f) || changed
		}
	case reflect.Pointer:
		return !v.IsNil() && eachValue(v.Elem(), f)
	case reflect.Map:
		for _, k := range v.MapKeys() { // map elements cannot be set in place
			e := reflect.New(v.Type().Elem()).Elem()
			e.Set(v.MapIndex(k))
			if eachValue(e, f) {
				v.SetMapIndex(k, e)
				changed = true
			}
		}
	}
	return changed
}

// readValues calls f with every Value inside obj.
func readValues(v reflect.Value, f func(Value)) {
	eachValue(v, func(x *Value) bool { f(*x); return false })
}

// clone copies v deeply, so that no Value in the copy shares memory with v.
func clone(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch {
	case v.Type() == reflect.TypeFor[Value](), v.Type() == reflect.TypeFor[Content]():
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			out.Field(i).Set(clone(v.Field(i)))
		}
	case v.Kind() == reflect.Slice && !v.IsNil():
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(clone(v.Index(i)))
		}
	case v.Kind() == reflect.Map && !v.IsNil():
		out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		for _, k := range v.MapKeys() {
			out.SetMapIndex(k, clone(v.MapIndex(k)))
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		out.Set(reflect.New(v.Type().Elem()))
		out.Elem().Set(clone(v.Elem()))
	}
	return out
}

// Clone returns a deep copy of an object, given as a pointer to the kind's struct.
func (s *Schema) Clone(obj any) any {
	c := reflect.New(s.Type)
	c.Elem().Set(clone(reflect.ValueOf(obj).Elem()))
	return c.Interface()
}

// Refs lists the addresses that the object refers to, without duplicates, in field order.
func (s *Schema) Refs(obj any) []Address {
	seen := map[Address]bool{}
	var out []Address
	s.EachRef(obj, func(a Address, _ string) {
		if !seen[a] {
			seen[a] = true
			out = append(out, a)
		}
	})
	return out
}

// EachRef calls f with each reference of the object: the resource and its output.
func (s *Schema) EachRef(obj any, f func(a Address, attr string)) {
	readValues(reflect.ValueOf(obj).Elem(), func(v Value) { v.Refs(f) })
}

// Resolved returns a copy of the object with the references that lookup knows
// replaced by their strings.
func (s *Schema) Resolved(obj any, lookup func(Address, string) (string, bool)) any {
	out := s.Clone(obj)
	eachValue(reflect.ValueOf(out).Elem(), func(v *Value) bool { *v = v.Resolve(lookup); return true })
	return out
}

// Unresolved lists the references of the object that are not known.
func (s *Schema) Unresolved(obj any) []string {
	var out []string
	s.EachRef(obj, func(a Address, attr string) { out = append(out, a.String()+"."+attr) })
	return out
}

// Attr returns an output of an observed object.
func (s *Schema) Attr(obj any, attr string) (string, bool) {
	f, ok := s.Output(attr)
	if !ok || obj == nil {
		return "", false
	}
	return fmt.Sprint(reflect.ValueOf(obj).Elem().Field(f.Index).Interface()), true
}

// Volatile reports whether an update of the object may change the output.
func (s *Schema) Volatile(attr string) bool {
	f, ok := s.Output(attr)
	return ok && f.Volatile
}

// Output returns the field of an output.
func (s *Schema) Output(name string) (Field, bool) {
	i := slices.IndexFunc(s.Fields, func(f Field) bool { return name != "" && f.Output == name })
	if i < 0 {
		return Field{}, false
	}
	return s.Fields[i], true
}

// Identities calls f with each non-empty identity output of an observed object.
func (s *Schema) Identities(obj any, f func(string)) {
	v := reflect.ValueOf(obj).Elem()
	for _, fd := range s.Fields {
		if fd.Mode == Output && fd.Identity && v.Field(fd.Index).String() != "" {
			f(v.Field(fd.Index).String())
		}
	}
}

// Texts calls f with each known, non-empty Value of an observed object.
func (s *Schema) Texts(obj any, f func(string)) {
	readValues(reflect.ValueOf(obj).Elem(), func(v Value) {
		if t, ok := v.Known(); ok && t != "" {
			f(t)
		}
	})
}

// withOutputs returns a copy of want that has the outputs of got.
func (s *Schema) withOutputs(want, got any) any {
	out := s.Clone(want)
	to, from := reflect.ValueOf(out).Elem(), reflect.ValueOf(got).Elem()
	for _, f := range s.Fields {
		if f.Mode == Output {
			to.Field(f.Index).Set(from.Field(f.Index))
		}
	}
	return out
}

// withoutPost returns a copy of want in which the post fields are zero.
func (s *Schema) withoutPost(want any) any {
	out := s.Clone(want)
	for _, f := range s.Fields {
		if f.Post {
			reflect.ValueOf(out).Elem().Field(f.Index).SetZero()
		}
	}
	return out
}
