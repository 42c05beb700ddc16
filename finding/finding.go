// Package finding is what a check finds wrong with what a user wrote: each finding names
// the place, the value, what is wrong and the way out.
//
// It must not know about objects, rules or terminals.
package finding

import (
	"fmt"
	"slices"
	"strings"
)

// Finding is one thing that is wrong with a document or a command line.
type Finding struct {
	// File and Line say where the text stands; Line counts from 1, and is 0 when unknown.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Object is what the finding is about, such as "Cluster/a.example.com".
	Object string `json:"object,omitempty"`
	// Path is the field, spelled as in the version that the user wrote: spec.subnets[0].cidr.
	Path string `json:"path,omitempty"`
	// Value is the offending value as text; empty when there is none.
	Value string `json:"value,omitempty"`
	// Rule is a stable name for the check, such as "unknown-field".
	Rule string `json:"rule"`
	// Message says what is wrong, in lower case, without a final stop.
	Message string `json:"message"`
	// Remedy says what to do, in lower case, without a final stop; may be empty.
	Remedy string `json:"remedy,omitempty"`
	// Warning marks a finding that does not stop the command.
	Warning bool `json:"warning,omitempty"`
}

// String writes the finding on one line:
// file:line: object: path: message, got "value": remedy.
func (f Finding) String() string {
	var b strings.Builder
	if f.File != "" || f.Line > 0 {
		name := f.File
		if name == "" {
			name = "line"
		}
		b.WriteString(name)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d", f.Line)
		}
		b.WriteString(": ")
	}
	for _, s := range []string{f.Object, f.Path} {
		if s != "" {
			b.WriteString(s + ": ")
		}
	}
	b.WriteString(f.Message)
	if f.Value != "" {
		fmt.Fprintf(&b, ", got %q", f.Value)
	}
	if f.Remedy != "" {
		b.WriteString("; " + f.Remedy)
	}
	return b.String()
}

// List is every finding of a check, in the order found. As an error it prints one a line.
type List []Finding

// Error writes the findings that are not warnings, one a line.
func (l List) Error() string {
	var lines []string
	for _, f := range l {
		if !f.Warning {
			lines = append(lines, f.String())
		}
	}
	return strings.Join(lines, "\n")
}

// Err returns the list as an error, or nil when it holds nothing but warnings.
func (l List) Err() error {
	if slices.ContainsFunc(l, func(f Finding) bool { return !f.Warning }) {
		return l
	}
	return nil
}
