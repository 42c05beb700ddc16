// Package compat reads and writes the documents of package api: v1alpha3, whose
// shape the Go structs have, and v1alpha2, which users write and the store holds.
//
// The two differ by a table of steps (steps.go). Each step moves one field and can be undone. The same steps turn the schema of v1alpha3, which is derived from the Go structs, into the
// schema of v1alpha2. So a document is checked as it was written,
// against the schema of its own version, and every finding has the user's own path
// and line; only what passed is converted. A second table lists the fields that v1alpha2 has and v1alpha3 lacks (retired.go).
//
// It must not know how a spec is completed or whether its values make sense
// together; that is for packages complete and validate.
package compat
