package resource

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var vpc = Address{Kind: "vpc", Name: "main"}

func TestValues(t *testing.T) {
	id := Out(vpc, "id")
	for _, c := range []struct {
		name  string
		v     Value
		text  string
		known bool
		refs  []string
	}{
		{"zero", Value{}, "", true, nil},
		{"literal", Lit("a"), "a", true, nil},
		{"output", id, "${vpc/main.id}", false, []string{"vpc/main.id"}},
		{"mixture", Concat(Lit("a/"), id, Lit("/b/"), Out(vpc, "arn")), "a/${vpc/main.id}/b/${vpc/main.arn}", false, []string{"vpc/main.id", "vpc/main.arn"}},
		{"joined literals", Concat(Lit("a"), Value{}, Lit("b")), "ab", true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, known := c.v.Known()
			var refs []string
			c.v.Refs(func(a Address, attr string) { refs = append(refs, a.String()+"."+attr) })
			if c.v.String() != c.text || known != c.known {
				t.Errorf("%q, known: %v", c.v, known)
			}
			if d := cmp.Diff(c.refs, refs); d != "" {
				t.Error(d)
			}
			if c.v.IsZero() != (c.text == "") {
				t.Errorf("IsZero: %v", c.v.IsZero())
			}
			if j, err := json.Marshal(c.v); err != nil || string(j) != `"`+c.text+`"` {
				t.Errorf("JSON %s, %v", j, err)
			}
		})
	}
}

func TestResolveKeepsUnknownReferences(t *testing.T) {
	v := Concat(Lit("<"), Out(vpc, "id"), Lit("|"), Out(vpc, "arn"), Lit(">"))
	got := v.Resolve(func(_ Address, attr string) (string, bool) { return "vpc-1", attr == "id" })
	if got.String() != "<vpc-1|${vpc/main.arn}>" {
		t.Errorf("got %s", got)
	}
	if v.String() != "<${vpc/main.id}|${vpc/main.arn}>" {
		t.Errorf("the original changed: %s", v)
	}
	empty := Out(vpc, "id").Resolve(func(Address, string) (string, bool) { return "", true })
	if s, known := empty.Known(); s != "" || !known || !empty.IsZero() {
		t.Errorf("resolved to nothing: %q %v", s, known)
	}
}

func TestDigests(t *testing.T) {
	const hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	if got, known := SHA256(Lit(" hello\n")).Known(); !known || got != hello {
		t.Errorf("digest %s, %t", got, known)
	}
	v := Concat(Lit("<"), SHA256(Concat(Out(vpc, "a"), Out(vpc, "b"))), Lit(">"))
	if _, known := v.Known(); known || v.String() != "<${sha256}>" {
		t.Errorf("got %s", v)
	}
	refs := 0
	v.Refs(func(a Address, _ string) {
		if refs++; a != vpc {
			t.Errorf("refers to %s", a)
		}
	})
	half := v.Resolve(func(_ Address, attr string) (string, bool) { return "hel", attr == "a" })
	if _, known := half.Known(); known || refs != 2 {
		t.Errorf("%d references, resolved to %s", refs, half)
	}
	if got := half.Resolve(func(Address, string) (string, bool) { return "lo", true }).String(); got != "<"+hello+">" {
		t.Errorf("resolved to %s", got)
	}
}

func TestContents(t *testing.T) {
	const hello = "5d41402abc4b2a76b9719d911017c592"
	for _, c := range []struct {
		name   string
		c      Content
		digest string
		shown  string
	}{
		{"text", Text(Lit("hello")), hello, "md5:" + hello + " (5 bytes)"},
		{"secret", SecretText("hello"), hello, "md5:" + hello},
		{"observed", Digested(hello), hello, "md5:" + hello},
		{"not known", Text(Out(vpc, "id")), "", "(known after apply)"},
	} {
		d, known := c.c.Digest()
		if d != c.digest || known != (c.digest != "") || c.c.String() != c.shown {
			t.Errorf("%s: digest %q, shown %q", c.name, d, c.c)
		}
		if j, err := json.Marshal(c.c); err != nil || string(j) != `"`+c.shown+`"` {
			t.Errorf("%s: JSON %s, %v", c.name, j, err)
		}
	}
}

func TestResolvedCopiesDeeply(t *testing.T) {
	s := schemaOf(t, everything{})
	id := Out(vpc, "id")
	in := &everything{Value: id, Values: []Value{id}, ByName: map[string]Value{"a": id}, Pointer: &inner{A: "x"}, Inners: []inner{{A: "y"}}, Map: map[string]string{"k": "v"}, Content: Text(id)}
	out := s.Resolved(in, func(Address, string) (string, bool) { return "vpc-1", true }).(*everything)
	for _, v := range []Value{out.Value, out.Values[0], out.ByName["a"], out.Content.Value()} {
		if v.String() != "vpc-1" {
			t.Errorf("not resolved: %s", v)
		}
	}
	out.Pointer.A, out.Inners[0].A, out.Map["k"] = "changed", "changed", "changed"
	if in.Value.String() != "${vpc/main.id}" || in.Values[0].String() != "${vpc/main.id}" || in.ByName["a"].String() != "${vpc/main.id}" ||
		in.Pointer.A != "x" || in.Inners[0].A != "y" || in.Map["k"] != "v" {
		t.Errorf("the original changed: %+v", in)
	}
	if d := cmp.Diff([]string{"vpc/main.id", "vpc/main.id", "vpc/main.id", "vpc/main.id"}, s.Unresolved(in)); d != "" {
		t.Error(d)
	}
	if got := s.Unresolved(out); len(got) > 0 {
		t.Errorf("unresolved: %v", got)
	}
	if d := cmp.Diff([]Address{vpc}, s.Refs(in)); d != "" {
		t.Error(d)
	}
}

func TestOutputsAreFoundByTheirName(t *testing.T) {
	s := schemaOf(t, everything{})
	o := &everything{Out: "x", Seq: 7, Text: "t"}
	for _, c := range []struct {
		attr, want string
		ok         bool
	}{{"out", "x", true}, {"seq", "7", true}, {"Out", "", false}, {"text", "", false}} {
		if got, ok := s.Attr(o, c.attr); got != c.want || ok != c.ok {
			t.Errorf("%s: %q %v", c.attr, got, ok)
		}
	}
	if _, ok := s.Attr(nil, "out"); ok {
		t.Error("an object that does not exist has outputs")
	}
	if !s.Volatile("seq") || s.Volatile("out") || s.Volatile("no") {
		t.Error("volatile outputs")
	}
}

func TestIdentitiesAndTexts(t *testing.T) {
	s := schemaOf(t, everything{})
	var ids, texts []string
	o := &everything{Out: "id-1", Text: "not a value", Value: Lit("a"), Values: []Value{Lit("b"), {}, Out(vpc, "id")}, ByName: map[string]Value{"x": Lit("c")}, Content: Text(Lit("d"))}
	s.Identities(o, func(id string) { ids = append(ids, id) })
	s.Texts(o, func(x string) { texts = append(texts, x) })
	if d := cmp.Diff([]string{"id-1"}, ids); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"a", "b", "c", "d"}, texts); d != "" {
		t.Error(d)
	}
	s.Identities(&everything{}, func(id string) { t.Errorf("an empty identity: %q", id) })
}
