package resource

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// everything has a field of each type and mode.
type everything struct {
	Text    string
	Yes     bool
	Count   int
	Small   int32
	Big     int64
	MaybeB  *bool
	MaybeI  *int
	Set     []string
	List    []string `res:",ordered"`
	Numbers []int
	Map     map[string]string
	Value   Value
	Values  []Value
	ByName  map[string]Value
	Inner   inner
	Inners  []inner
	Pointer *inner
	Content Content
	JSON    string `res:",json"`
	Policy  Value  `res:",json"`

	New     string `res:"replace"`
	Never   string `res:"forbid"`
	Any     string `res:"default"`
	AnyBool bool   `res:"default"`
	Secret  string `res:"writeonly"`
	Out     string `res:"out,id" out:"out"`
	Seq     int    `res:"out,volatile" out:"seq"`
}

type inner struct {
	A     string
	B     string   `res:"default"`
	Names []string `tf:"names"`
}

func schemaOf(t *testing.T, v any) *Schema {
	t.Helper()
	s, err := SchemaOf(reflect.TypeOf(v))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// open is a map in which keys with a dot belong to others.
type open map[string]string

func (open) Foreign(key string) bool { return strings.Contains(key, ".") }

func TestForeignEntriesOfAnOpenMapAreNoDifference(t *testing.T) {
	type object struct{ Tags open }
	schema, err := SchemaOf(reflect.TypeFor[object]())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want, have open
		leaves     string
	}{
		{open{"a": "1", "b.c": "2"}, open{"a": "1", "b.c": "2", "x.y": "3"}, ""},
		{nil, open{"x.y": "3"}, ""},
		{open{"b.c": "2"}, open{"b.c": "3", "x.y": "3", "old": "4"}, `Tags["b.c"]: 3 -> 2; Tags["old"]: 4 -> `},
	} {
		var got []string
		for _, change := range schema.Diff(&object{c.want}, &object{c.have}) {
			for _, l := range change.Leaves {
				got = append(got, fmt.Sprintf("%s: %s -> %s", l.Path, l.Have, l.Want))
			}
		}
		if strings.Join(got, "; ") != c.leaves {
			t.Errorf("%v -> %v: %q, not %q", c.have, c.want, got, c.leaves)
		}
	}
}

func TestDiffOfEveryType(t *testing.T) {
	yes, no, one, two := true, false, 1, 2
	out := Out(Address{Kind: "k", Name: "n"}, "id")
	for _, c := range []struct {
		name       string
		want, have everything
		leaves     string // path: have -> want, joined by "; "
	}{
		{"nothing", everything{}, everything{}, ""},
		{"string", everything{Text: "b"}, everything{Text: "a"}, "Text: a -> b"},
		{"string emptied", everything{}, everything{Text: "a"}, "Text: a -> "},
		{"bool on", everything{Yes: true}, everything{}, "Yes: false -> true"},
		{"bool off", everything{}, everything{Yes: true}, "Yes: true -> false"},
		{"int", everything{Count: 2}, everything{}, "Count: 0 -> 2"},
		{"int32", everything{Small: 2}, everything{Small: 3}, "Small: 3 -> 2"},
		{"int32 from nothing", everything{}, everything{Small: 3}, "Small: 3 -> 0"},
		{"int64", everything{Big: 1 << 40}, everything{}, "Big: 0 -> 1099511627776"},
		{"pointer set", everything{MaybeB: &no}, everything{}, "MaybeB:  -> false"},
		{"pointer unset", everything{}, everything{MaybeI: &one}, "MaybeI: 1 -> "},
		{"pointers to equal values", everything{MaybeB: &yes, MaybeI: &one}, everything{MaybeB: func() *bool { b := true; return &b }(), MaybeI: func() *int { i := 1; return &i }()}, ""},
		{"pointers to other values", everything{MaybeI: &two}, everything{MaybeI: &one}, "MaybeI: 1 -> 2"},
		{"set in another order", everything{Set: []string{"a", "b"}}, everything{Set: []string{"b", "a"}}, ""},
		{"set", everything{Set: []string{"a", "c"}}, everything{Set: []string{"b", "a"}}, "Set: [a, b] -> [a, c]"},
		{"list in another order", everything{List: []string{"a", "b"}}, everything{List: []string{"b", "a"}}, "List: [b, a] -> [a, b]"},
		{"empty and nil", everything{Set: []string{}, Map: map[string]string{}, Value: Lit("")}, everything{}, ""},
		{"numbers", everything{Numbers: []int{1, 10, 2}}, everything{Numbers: []int{2, 1}}, "Numbers: [1, 2] -> [1, 10, 2]"},
		{"map", everything{Map: map[string]string{"same": "1", "changed": "2", "new": "3"}}, everything{Map: map[string]string{"same": "1", "changed": "1", "old": "x"}},
			`Map["changed"]: 1 -> 2; Map["new"]:  -> 3; Map["old"]: x -> `},
		{"an entry without a value is not an absent one", everything{Map: map[string]string{"same": "", "new": ""}, ByName: map[string]Value{"new": {}}},
			everything{Map: map[string]string{"same": "", "old": ""}}, `Map["new"]:  -> ; Map["old"]:  -> ; ByName["new"]:  -> `},
		{"value", everything{Value: Lit("b")}, everything{Value: Lit("a")}, "Value: a -> b"},
		{"value that is not known", everything{Value: out}, everything{Value: Lit("a")}, "Value: a -> ${k/n.id}"},
		{"values are a set", everything{Values: Lits("a", "b")}, everything{Values: Lits("b", "a")}, ""},
		{"values", everything{Values: []Value{Lit("z"), out}}, everything{Values: Lits("b")}, "Values: [b] -> [${k/n.id}, z]"},
		{"map of values", everything{ByName: map[string]Value{"a": out}}, everything{ByName: map[string]Value{"a": Lit("1"), "b": Lit("2")}}, `ByName["a"]: 1 -> ${k/n.id}; ByName["b"]: 2 -> `},
		{"nested struct", everything{Inner: inner{A: "2"}}, everything{Inner: inner{A: "1", B: "chosen"}}, "Inner.A: 1 -> 2"},
		{"nested default", everything{Inner: inner{B: "y"}}, everything{Inner: inner{B: "x"}}, "Inner.B: x -> y"},
		{"structs", everything{Inners: []inner{{A: "1"}, {A: "2"}}}, everything{Inners: []inner{{A: "2"}, {A: "1"}}}, ""},
		{"structs changed", everything{Inners: []inner{{A: "1", Names: []string{"x"}}}}, everything{Inners: []inner{{A: "1"}}}, "Inners: [{A: 1}] -> [{A: 1, Names: [x]}]"},
		{"pointer to struct", everything{Pointer: &inner{A: "2"}}, everything{Pointer: &inner{A: "1"}}, "Pointer.A: 1 -> 2"},
		{"pointer to struct set", everything{Pointer: &inner{A: "2"}}, everything{}, "Pointer:  -> {A: 2}"},
		{"content by digest", everything{Content: Text(Lit("hello"))}, everything{Content: Digested("5d41402abc4b2a76b9719d911017c592")}, ""},
		{"content by SHA-256", everything{Content: Text(Lit("hello"))}, everything{Content: Digested("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")}, ""},
		{"content", everything{Content: Text(Lit("hello"))}, everything{Content: Digested("00")}, "Content: md5:00 -> md5:5d41402abc4b2a76b9719d911017c592 (5 bytes)"},
		{"content that is not known", everything{Content: Text(out)}, everything{Content: Digested("00")}, "Content: md5:00 -> (known after apply)"},
		{"secret content", everything{Content: SecretText("hello")}, everything{Content: Text(Lit("x"))}, "Content: md5:9dd4e461268c8034f5c8564e155c67a6 (1 bytes) -> md5:5d41402abc4b2a76b9719d911017c592"},
		{"json", everything{JSON: `{"a": 1, "b": [1]}`, Policy: Lit(`{"x":1}`)}, everything{JSON: `{"b":[1],"a":1}`, Policy: Lit("{ \"x\" : 1 }")}, ""},
		{"json changed", everything{JSON: `{"b": 2}`}, everything{JSON: `{"b": 1}`}, `JSON: {"b":1} -> {"b":2}`},
		{"not json", everything{JSON: "{"}, everything{JSON: "[ 1 ]"}, "JSON: [1] -> {"},
		{"modes", everything{New: "n", Never: "n"}, everything{New: "h", Never: "h"}, "New (replace): h -> n; Never (forbid): h -> n"},
		{"default accepted", everything{}, everything{Any: "chosen", AnyBool: true}, ""},
		{"default wanted", everything{Any: "b"}, everything{Any: "a"}, "Any (default): a -> b"},
		{"not compared", everything{Secret: "new", Out: "1", Seq: 2}, everything{Secret: "old"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, ch := range schemaOf(t, everything{}).Diff(&c.want, &c.have) {
				for _, l := range ch.Leaves {
					if !strings.HasPrefix(l.Path, ch.Field) {
						t.Errorf("leaf %s of field %s", l.Path, ch.Field)
					}
					if ch.Mode != Update {
						l.Path += " (" + string(ch.Mode) + ")"
					}
					got = append(got, l.Path+": "+l.Have+" -> "+l.Want)
				}
			}
			if d := cmp.Diff(c.leaves, strings.Join(got, "; ")); d != "" {
				t.Error(d)
			}
			if left := schemaOf(t, everything{}).Diff(&c.want, &c.want); len(left) > 0 && !strings.Contains(c.name, "not known") {
				t.Errorf("an object differs from itself: %v", left)
			}
		})
	}
}

func TestTags(t *testing.T) {
	type tagged struct {
		Plain string
		All   string `res:"out,post,id,volatile,ordered,json" out:"all" tf:"name,zero,file=other,file64,lines,block,raw"`
		Short string `res:",post" tf:"x,file64"`
	}
	got := schemaOf(t, tagged{}).Fields
	want := []Field{
		{Name: "Plain"},
		{Name: "All", Index: 1, Mode: Output, Post: true, Identity: true, Volatile: true, Ordered: true, JSON: true, Output: "all",
			Terraform: Attribute{Name: "name", Zero: true, File: true, File64: true, Lines: true, Block: true, Raw: true, FileName: "other"}},
		{Name: "Short", Index: 2, Post: true, Terraform: Attribute{Name: "x", File64: true}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, c := range []struct {
		object any
		want   string
	}{
		{struct {
			A string `res:"sometimes"`
		}{}, `A: unknown mode "sometimes"`},
		{struct {
			A string `res:"out,ident"`
		}{}, `A: unknown option "ident"`},
		{struct {
			A string `out:"a"`
		}{}, `A: it is not an output, but has the output name "a"`},
		{struct {
			A string `tf:"a,fle"`
		}{}, `A: unknown option "fle"`},
		{struct {
			A string `tf:"a,zero=1"`
		}{}, `A: unknown option "zero=1"`},
		{struct {
			A string `res:"out,id=1"`
		}{}, `A: unknown option "id=1"`},
		{struct{ a string }{}, `a: unexported field in a resource`},
	} {
		if _, err := SchemaOf(reflect.TypeOf(c.object)); err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

type checked struct {
	Free    string
	Def     string `res:"default"`
	Set     string
	Late    string `res:"replace,post"`
	New     string `res:"replace"`
	Wrong   string `res:",volatile"`
	ID      int    `res:"out,id"`
	NotMade string `res:"writeonly"`
}

func TestCheckFindsForgottenFields(t *testing.T) {
	k := &Kind[checked, any]{Name: "toy", MadeOf: []string{"Set", "Lost"}, Update: []Setter[checked, any]{{Fields: []string{"Set", "Gone"}}}}
	err := k.Erase().Check()
	want := `toy.Free: no setter, and not replace, forbid, writeonly or out
toy.Def: no setter, and not replace, forbid, writeonly or out
toy.Late: no setter, and not replace, forbid, writeonly or out
toy.Wrong: no setter, and not replace, forbid, writeonly or out
toy.Wrong: only outputs can be id or volatile
toy.ID: an identity must be a string
toy: setter for unknown field Gone
toy: MadeOf names the unknown field Lost
toy: MadeOf requires Group, which returns the instance group of the machines
toy: Name, API, Key, List, Create and Delete are needed`
	if err == nil || err.Error() != want {
		t.Errorf("%s", cmp.Diff(want, errors.Join(err, errors.New("")).Error()))
	}
	type sound struct {
		A  string `res:"replace"`
		ID string `res:"out,id"`
	}
	good := &Kind[sound, any]{Name: "toy", API: "x", Key: func(*sound) string { return "" },
		List:   func(context.Context, any, Scope) ([]*sound, error) { return nil, nil },
		Create: func(context.Context, any, *sound) error { return nil }, Delete: func(context.Context, any, *sound) error { return nil }}
	if err := good.Erase().Check(); err != nil {
		t.Error(err)
	}
}

// A field with a bound does not differ while the observed number is within the bound.
func TestBoundsAreNoDifference(t *testing.T) {
	type object struct {
		Min int `res:",least"`
		Max int `res:",most"`
	}
	schema, err := SchemaOf(reflect.TypeFor[object]())
	if err != nil {
		t.Fatal(err)
	}
	for have, want := range map[int]string{1: "Min: 1 -> 2", 2: "", 3: "", 4: "", 5: "Max: 5 -> 4"} {
		var got []string
		for _, c := range schema.Diff(&object{2, 4}, &object{have, have}) {
			for _, l := range c.Leaves {
				got = append(got, l.Path+": "+l.Have+" -> "+l.Want)
			}
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%d machines: %q, want %q", have, got, want)
		}
	}
}

func TestForeignEntriesAreKept(t *testing.T) {
	have := open{"a": "old", "b": "unwanted", "x.y": "others'"}
	got := WithForeign(open{"a": "new"}, have)
	if want := (open{"a": "new", "x.y": "others'"}); !reflect.DeepEqual(got, want) || len(have) != 3 {
		t.Errorf("got %v of %v", got, have)
	}
	if got := WithForeign(open(nil), nil); got == nil || len(got) != 0 {
		t.Errorf("of nothing, got %v", got)
	}
}
