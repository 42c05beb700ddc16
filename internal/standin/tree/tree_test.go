package tree_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"kops.local/kops/internal/standin/tree"
)

func TestDecode(t *testing.T) {
	if v, err := tree.Decode([]byte(`{"n":12345678901234567890,"l":[1]}`)); err != nil || !tree.Equal(v, tree.Object{"n": json.Number("12345678901234567890"), "l": tree.List{json.Number("1")}}) {
		t.Errorf("got %v, %v", v, err)
	}
	if v, err := tree.Decode(nil); v != nil || err != nil {
		t.Errorf("got %v, %v", v, err)
	}
	for _, text := range []string{`{`, `{} {}`, `x`} {
		if v, err := tree.Decode([]byte(text)); err == nil {
			t.Errorf("%s is %v", text, v)
		}
	}
}

func TestPlain(t *testing.T) {
	v, err := tree.Decode([]byte(`{"a":[1,1.5,12345678901234567890],"b":"c"}`))
	if got := tree.Plain(v); err != nil || !tree.Equal(got, tree.Object{"a": tree.List{int64(1), 1.5, 12345678901234567890.0}, "b": "c"}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestHas(t *testing.T) {
	o := tree.Object{"a": tree.List{tree.Object{"b": int64(1)}, tree.Object{"b": int64(2)}}}
	if !tree.Has(o, "a[].b", int64(2)) || tree.Has(o, "a[].b", int64(3)) || tree.Has(o, "a[].c", nil) {
		t.Error("it has other values")
	}
}

func TestFieldsOfAnotherTypeAreEmpty(t *testing.T) {
	o := tree.Object{"s": "a", "b": true, "n": int64(7), "o": tree.Object{"x": "y"}, "l": tree.List{tree.Object{"i": "j"}, "k", int64(1)}}
	got := fmt.Sprintf("%s %t %d %v %v %v", tree.Text(o, "s"), tree.Bool(o, "b"), tree.Number(o, "n"), tree.Sub(o, "o"), tree.Subs(o, "l"), tree.Texts(o, "l"))
	if got != "a true 7 map[x:y] [map[i:j]] [k]" {
		t.Errorf("got %s", got)
	}
	for _, field := range []string{"none", "o", "l"} {
		if tree.Text(o, field) != "" || tree.Bool(o, field) || tree.Number(o, field) != 0 {
			t.Errorf("%s has a value", field)
		}
	}
	if tree.Sub(o, "s") != nil || tree.Subs(o, "s") != nil || tree.Texts(nil, "l") != nil {
		t.Error("a text has fields or items")
	}
}

func TestACloneIsIndependent(t *testing.T) {
	o := tree.Object{"a": tree.Object{"b": tree.List{tree.Object{"c": "d"}}}}
	c := tree.Clone(o)
	tree.Subs(tree.Sub(c, "a"), "b")[0]["c"] = "e"
	if tree.Subs(tree.Sub(o, "a"), "b")[0]["c"] != "d" || tree.Equal(o, c) {
		t.Errorf("got %v and %v", o, c)
	}
	if c := tree.Clone[tree.Object](nil); c == nil {
		t.Error("a copy of nothing cannot be written to")
	}
}

func TestFieldsAreSet(t *testing.T) {
	o := tree.Object{"a": "b"}
	tree.SetDefaults(o, tree.Object{"a": "c", "d": "e"})
	tree.SetTexts(o, "l", []string{"x"})
	if want := (tree.Object{"a": "b", "d": "e", "l": tree.List{"x"}}); !tree.Equal(o, want) {
		t.Errorf("got %v", o)
	}
	if tree.SetTexts(o, "l", nil); o["l"] != nil || len(o) != 2 {
		t.Errorf("got %v", o)
	}
}

func TestAPatchIsMerged(t *testing.T) {
	o := tree.Object{"keep": "a", "gone": "b", "in": tree.Object{"keep": "c", "gone": "d"}, "l": tree.List{"e", "f"}}
	got := tree.MergePatch(o, tree.Object{"gone": nil, "in": tree.Object{"gone": nil, "new": "g"}, "l": tree.List{tree.Object{"h": nil, "i": "j"}}, "made": tree.Object{"k": nil, "l": "m"}})
	if want := (tree.Object{"keep": "a", "in": tree.Object{"keep": "c", "new": "g"}, "l": tree.List{tree.Object{"i": "j"}}, "made": tree.Object{"l": "m"}}); !tree.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if tree.Text(o, "gone") != "b" || tree.Text(tree.Sub(o, "in"), "gone") != "d" {
		t.Errorf("the original is %v", o)
	}
}

func TestVisit(t *testing.T) {
	o := tree.Object{"a": "1", "in": tree.Object{"b": "2"}, "items": tree.List{tree.Object{"c": "3"}, tree.Object{}, tree.Object{"c": "4"}}, "texts": tree.List{"5", "6"}}
	for path, want := range map[string][]string{
		"a": {"at.a=1"}, "in.b": {"at.in.b=2"}, "items[].c": {"at.items[0].c=3", "at.items[2].c=4"}, "texts[]": {"at.texts[0]=5", "at.texts[1]=6"},
		"none": nil, "none.b": nil, "none[].b": nil, "none[]": nil,
	} {
		var got []string
		err := tree.Visit(o, path, "at", func(parent tree.Object, field, at string) error {
			got = append(got, fmt.Sprint(at, "=", parent[field]))
			parent[field] = parent[field].(string) + "!"
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %v, %v", path, got, err)
		}
	}
	if got := fmt.Sprint(o); got != "map[a:1! in:map[b:2!] items:[map[c:3!] map[] map[c:4!]] texts:[5! 6!]]" {
		t.Errorf("after it was changed: %s", got)
	}
	stop := errors.New("stop")
	for _, path := range []string{"a", "in.b", "items[].c", "texts[]"} {
		if err := tree.Visit(o, path, "", func(tree.Object, string, string) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
