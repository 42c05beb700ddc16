// Package compat reads and writes the documents of package api: v1alpha3, whose
// shape the Go structs have, and v1alpha2, which users write and the store contains.
//
// The two differ by a table of steps (steps.go). Each step moves one field and is
// reversible. The same steps turn the schema of v1alpha3, which is derived from the Go
// structs, into the schema of v1alpha2. So a document is checked as it was written,
// against the schema of its own version, and every finding has the user's own path
// and line; only valid content is converted. A second table lists the fields of v1alpha2
// that v1alpha3 does not have (retired.go).
//
// It must not know how a spec is completed or whether its values make sense
// together; that is for packages complete and validate.
package compat
