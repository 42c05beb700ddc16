// Package value defines the types of a desired resource's fields that are not plain Go values: a
// string that may not be known before another resource exists, and a long or secret text.
//
// It must not know what a resource is. It imports the standard library only.
package value

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Address names one resource of a cluster. Kind and Name together are unique.
type Address struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// String returns the address as kind/name.
func (a Address) String() string { return a.Kind + "/" + a.Name }

// Value is a string that may depend on outputs of other resources, and so may
// not be known before they are applied. The zero Value is the known "".
type Value struct{ parts []part }

type part struct {
	lit  string
	from Address
	attr string // empty for a literal part
	// sum is what the part is the digest of; nil for any other part
	sum *Value
}

func (p part) isLit() bool { return p.attr == "" && p.sum == nil }

// Lit returns a known Value.
func Lit(s string) Value {
	if s == "" {
		return Value{}
	}
	return Value{[]part{{lit: s}}}
}

// Lits returns known Values.
func Lits(ss ...string) []Value {
	out := make([]Value, len(ss))
	for i, s := range ss {
		out[i] = Lit(s)
	}
	return out
}

// Texts returns the text of each value.
func Texts(vs []Value) []string {
	out := make([]string, len(vs))
	for i, v := range vs {
		out[i] = v.Text()
	}
	return out
}

// Out returns the Value that the output attr of the resource at a will have.
func Out(a Address, attr string) Value { return Value{[]part{{from: a, attr: attr}}} }

// SHA256 returns the hexadecimal SHA-256 of a value without surrounding white space.
func SHA256(v Value) Value {
	text, known := v.Known()
	if !known {
		return Value{[]part{{sum: &v}}}
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(text)))
	return Lit(hex.EncodeToString(sum[:]))
}

// Concat joins values into one.
func Concat(vs ...Value) Value {
	var out Value
	for _, v := range vs {
		out.parts = append(out.parts, v.parts...)
	}
	return out
}

// Known reports the string, and whether every part of it is known.
func (v Value) Known() (string, bool) {
	var b strings.Builder
	for _, p := range v.parts {
		if !p.isLit() {
			return "", false
		}
		b.WriteString(p.lit)
	}
	return b.String(), true
}

// Text returns the string, or "" if a part of it is not known.
func (v Value) Text() string {
	s, _ := v.Known()
	return s
}

// IsZero reports whether the value is the known "".
func (v Value) IsZero() bool {
	s, known := v.Known()
	return known && s == ""
}

// String returns the known string, with unknown parts shown as ${kind/name.attr} and ${sha256}.
func (v Value) String() string {
	return v.Render(
		func(s string) string { return s },
		func(a Address, attr string) string { return "${" + a.String() + "." + attr + "}" },
		func(Value) string { return "${sha256}" })
}

// MarshalText returns what String returns, so that plans can be saved.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Render renders the value, its literal parts through lit, each reference through ref, and each
// digest of a value that is not known through sum; a renderer for another tool supplies that tool's
// syntax.
func (v Value) Render(lit func(string) string, ref func(a Address, attr string) string, sum func(Value) string) string {
	var b strings.Builder
	for _, p := range v.parts {
		switch {
		case p.sum != nil:
			b.WriteString(sum(*p.sum))
		case p.attr != "":
			b.WriteString(ref(p.from, p.attr))
		default:
			b.WriteString(lit(p.lit))
		}
	}
	return b.String()
}

// Refs calls yield for each resource the value depends on.
func (v Value) Refs(yield func(Address, string)) {
	for _, p := range v.parts {
		switch {
		case p.sum != nil:
			p.sum.Refs(yield)
		case p.attr != "":
			yield(p.from, p.attr)
		}
	}
}

// Resolve replaces the references that lookup resolves.
func (v Value) Resolve(lookup func(Address, string) (string, bool)) Value {
	if _, known := v.Known(); known {
		return v
	}
	out := Value{make([]part, 0, len(v.parts))}
	for _, p := range v.parts {
		if p.sum != nil {
			out.parts = append(out.parts, SHA256(p.sum.Resolve(lookup)).parts...)
			continue
		}
		if p.attr != "" {
			if s, ok := lookup(p.from, p.attr); ok {
				p = part{lit: s}
			}
		}
		out.parts = append(out.parts, p)
	}
	return out
}
