// Package resource defines what a managed object is: its desired state, how it
// is observed, how a difference is found, and how a difference is applied.
//
// It must not know Kubernetes, any cloud, or how plans are made or carried out.
// It imports the standard library and package value only.
package resource

import "kops.local/kops/provider/value"

// Types of the fields of a kind's struct; see package value.
type (
	Address = value.Address
	Value   = value.Value
	Content = value.Content
)

// Lit returns a known Value.
func Lit(s string) Value { return value.Lit(s) }

// Lits returns known Values.
func Lits(ss ...string) []Value { return value.Lits(ss...) }

// Texts returns the texts of values, as far as they are known.
func Texts(vs []Value) []string { return value.Texts(vs) }

// Out returns the Value that the output attr of the resource at a will have.
func Out(a Address, attr string) Value { return value.Out(a, attr) }

// Concat joins values into one.
func Concat(vs ...Value) Value { return value.Concat(vs...) }

// SHA256 returns the hexadecimal SHA-256 of a value without surrounding white space.
func SHA256(v Value) Value { return value.SHA256(v) }

// Text returns a content with a given text.
func Text(v Value) Content { return value.Text(v) }

// SecretText returns a content that is never shown.
func SecretText(s string) Content { return value.SecretText(s) }

// Digested returns an observed content with only a known digest.
func Digested(hexadecimal string) Content { return value.Digested(hexadecimal) }
