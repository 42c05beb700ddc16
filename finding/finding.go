// Package finding describes mistakes in a user's input: each finding names the place, the
// value, what is wrong, and what to do.
//
// It must not know about objects, rules or terminals.
package finding

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/redact"
)

// Finding is one thing that is wrong with a document or a command line.
type Finding struct {
	// File and Line are the position of the text; Line counts from 1, and is 0 if unknown.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Object is what the finding is about, such as "Cluster/a.example.com".
	Object string `json:"object,omitempty"`
	// Path is the field, spelled as in the API version of the input: spec.subnets[0].cidr.
	Path string `json:"path,omitempty"`
	// Value is the offending value as text; empty if there is no value.
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
	if about := f.about(); about != "" {
		b.WriteString(about + ": ")
	}
	b.WriteString(f.Message)
	if f.Value != "" {
		fmt.Fprintf(&b, ", got %q", redact.Field(f.Path, f.Value))
	}
	if f.Remedy != "" {
		b.WriteString("; " + f.Remedy)
	}
	return b.String()
}

// about names the object and the field.
func (f Finding) about() string {
	return strings.Join(slices.DeleteFunc([]string{f.Object, f.Path}, func(s string) bool { return s == "" }), ": ")
}

// List holds the findings of a check, in the order found. As an error it prints one per line.
type List []Finding

// Error returns the findings that are not warnings, one per line.
func (l List) Error() string { return strings.Join(l.Errors(), "\n") }

// Errors returns a text for each finding that is not a warning. Findings that differ only in
// their object or path have one cause, and share a text.
func (l List) Errors() []string {
	var out []string
	var done []cause
	for _, f := range l {
		if f.Warning || slices.Contains(done, f.cause()) && f.shared() {
			continue
		}
		if f.shared() {
			done = append(done, f.cause())
			f.Object, f.Path = l.about(f.cause()), ""
		}
		out = append(out, f.String())
	}
	return out
}

// cause is what findings that can share a text have in common.
type cause struct{ value, rule, message, remedy string }

func (f Finding) cause() cause { return cause{f.Value, f.Rule, f.Message, f.Remedy} }

// shared reports whether a finding may share a text with others: findings with a position
// in a file are reported one by one.
func (f Finding) shared() bool { return f.File == "" && f.Line == 0 && f.about() != "" }

// maxNamed is the number of objects or fields that one text names at most.
const maxNamed = 5

// about names the objects and fields of the errors with one cause: the objects that share a
// field, the fields of one object, or each object with its field.
func (l List) about(c cause) string {
	var objects, paths, both []string
	add := func(list *[]string, s string) {
		if !slices.Contains(*list, s) {
			*list = append(*list, s)
		}
	}
	for _, f := range l {
		if !f.Warning && f.shared() && f.cause() == c {
			add(&objects, f.Object)
			add(&paths, f.Path)
			add(&both, f.about())
		}
	}
	if len(objects) == 1 || len(paths) == 1 {
		return Finding{Object: enumerate(objects), Path: enumerate(paths)}.about()
	}
	return enumerate(both)
}

// enumerate joins up to maxNamed names, and says how many more there are.
func enumerate(names []string) string {
	if more := len(names) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}

// Err returns the list as an error, or nil if it holds only warnings.
func (l List) Err() error {
	if slices.ContainsFunc(l, func(f Finding) bool { return !f.Warning }) {
		return l
	}
	return nil
}
