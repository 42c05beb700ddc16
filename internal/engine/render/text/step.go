package text

import (
	"bufio"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/redact"
	"kops.local/kops/internal/engine/resource"
)

// printer writes text; flush returns the first error of the writer.
type printer struct {
	*bufio.Writer
	color, full, whole bool
}

// printf escapes the control characters of its arguments, except painted ones, and hides the
// passwords of URLs. It ignores the error, which flush returns.
func (p *printer) printf(format string, args ...any) {
	for i, a := range args {
		switch a := a.(type) {
		case painted:
			args[i] = string(a)
		case string:
			args[i] = printable(redact.Userinfo(a))
		}
	}
	_, _ = fmt.Fprintf(p, format, args...)
}

// painted is text for the terminal, colours included.
type painted string

func (p *printer) flush() error {
	if err := p.Flush(); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return nil
}

// paint colours text according to the mark of an operation.
func (p *printer) paint(mark, text string) painted {
	text = redact.Userinfo(text)
	codes := map[string]string{"+": "32", "~": "33", "-/+": "35", "-": "31"}
	code, ok := codes[mark]
	if !p.color || !ok {
		return painted(printable(text))
	}
	return painted("\x1b[" + code + "m" + printable(text) + "\x1b[0m")
}

func (p *printer) section(title, mark string, steps []plan.Step) {
	if len(steps) == 0 {
		return
	}
	p.printf("%s\n", title)
	for _, s := range steps {
		p.step(mark, s)
	}
	p.printf("\n")
}

func (p *printer) step(mark string, s plan.Step) {
	line := s.Address.String()
	if id := identity(s); id != "" && !strings.HasSuffix(id, "/"+s.Key) { // not for an ARN that ends in the name, as it adds nothing
		line += "  " + id
	}
	if s.Why != "" && (s.Op == plan.Delete || s.Replaces || s.Shared) {
		line += "  (" + s.Why + ")"
	}
	p.printf("  %s %s\n", p.paint(mark, mark), oneLine(line))
	switch s.Op {
	case plan.Create:
		if !s.Replaces {
			p.fields(s)
			return
		}
		p.changes(s)
	case plan.Update, plan.Keep: // a shared resource may differ
		p.changes(s)
	}
}

// maxTextLength is how many characters of a new value are shown, unless Full is set.
const maxTextLength = 100

// fields shows the fields of a new resource: its difference from an empty one. Unless Full is set,
// tags are left out and long values cut, because there is nothing that they could be compared with.
func (p *printer) fields(s plan.Step) {
	schema := s.Kind.Schema()
	for _, c := range schema.Diff(s.Want, blank(schema.Type)) {
		if c.Field == "Tags" && !p.full {
			continue
		}
		for _, l := range c.Leaves {
			want := leafValue(s.Want, l.Path)
			if p.full && isContent(want) {
				if lines := difference(reflect.ValueOf(resource.Content{}), want, l); lines != nil {
					p.lines(l.Path, lines)
					continue
				}
			}
			value := show(want, l.Want)
			if r := []rune(value); len(r) > maxTextLength && !p.whole {
				value = string(r[:maxTextLength]) + "…"
			}
			p.printf("      %s: %s\n", l.Path, value)
		}
	}
}

// blank returns an empty object that has its optional parts, so that each of their
// fields is a difference of its own.
func blank(t reflect.Type) any {
	object := reflect.New(t)
	for i := range t.NumField() {
		if f := t.Field(i).Type; f.Kind() == reflect.Pointer && f.Elem().Kind() == reflect.Struct {
			object.Elem().Field(i).Set(reflect.New(f.Elem()))
		}
	}
	return object.Interface()
}

func (p *printer) changes(s plan.Step) {
	for _, c := range s.Changes {
		for _, l := range c.Leaves {
			have, want := leafValue(s.Have, l.Path), leafValue(s.Want, l.Path)
			lines := listDifference(have, want, l)
			if lines == nil {
				lines = difference(have, want, l)
			}
			if lines != nil {
				p.lines(l.Path, lines)
				continue
			}
			p.printf("      %s: %s -> %s\n", l.Path, show(have, l.Have), show(want, l.Want))
		}
	}
}

// lines shows the difference of a long value.
func (p *printer) lines(path string, lines []string) {
	p.printf("      %s:\n", path)
	for _, line := range lines {
		p.printf("        %s\n", p.paint(line[:min(1, len(line))], line))
	}
}

// Differences returns the unified differences of the long texts that a step changes, by the paths
// of the leaves. Secret or unknown texts have none. Passwords of URLs are hidden.
func Differences(s plan.Step) map[string][]string {
	out := map[string][]string{}
	for _, c := range s.Changes {
		for _, l := range c.Leaves {
			if lines := difference(leafValue(s.Have, l.Path), leafValue(s.Want, l.Path), l); lines != nil {
				for i := range lines {
					lines[i] = redact.Userinfo(lines[i])
				}
				out[l.Path] = lines
			}
		}
	}
	return out
}

// show formats one value: strings quoted, unknown values as the references that they come from.
func show(v reflect.Value, text string) string {
	for v.IsValid() && v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() {
		return "(none)"
	}
	switch x := v.Interface().(type) {
	case string:
		return fmt.Sprintf("%q", text)
	case resource.Value:
		if unknown, ok := reference(x); ok {
			return unknown + " (known after apply)"
		}
		return fmt.Sprintf("%q", text)
	case []resource.Value:
		return showList(x, text)
	}
	return text
}

func showList(vs []resource.Value, text string) string {
	items, unknown := make([]string, len(vs)), false
	for i, v := range vs {
		item, ok := reference(v)
		items[i], unknown = item, unknown || ok
	}
	switch {
	case len(vs) == 0:
		return "[]"
	case unknown:
		return "[" + strings.Join(items, ", ") + "] (known after apply)"
	}
	return text
}

// reference formats a value, and reports whether a part of it is not known.
func reference(v resource.Value) (string, bool) {
	_, known := v.Known()
	return v.Render(func(s string) string { return s }, func(a resource.Address, attr string) string {
		return "<" + a.String() + "." + attr + ">"
	}, func(resource.Value) string { return "<sha256>" }), !known
}

// listDifference returns the items that a long list loses and gains, or nil for short values,
// values that are not lists, and lists that are only reordered.
func listDifference(have, want reflect.Value, l resource.Leaf) []string {
	if len(l.Have)+len(l.Want) <= maxTextLength {
		return nil
	}
	old, new := items(have), items(want)
	var lines []string
	for _, o := range old {
		if !slices.Contains(new, o) {
			lines = append(lines, "-"+o)
		}
	}
	for _, n := range new {
		if !slices.Contains(old, n) {
			lines = append(lines, "+"+n)
		}
	}
	return lines
}

// items formats the items of a list, unknown ones as the references that they come from.
func items(list reflect.Value) []string {
	out := resource.Items(list)
	for i := range out {
		if v, ok := list.Index(i).Interface().(resource.Value); ok {
			if unknown, ok := reference(v); ok {
				out[i] = unknown + " (known after apply)"
			}
		}
	}
	return out
}

// difference returns the unified difference of two texts of several lines, or nil if the values are
// short, secret, or not both known.
func difference(have, want reflect.Value, l resource.Leaf) []string {
	if !isKnown(want) {
		return nil
	}
	old, new := l.Have, l.Want
	if isContent(have) || isContent(want) {
		var ok, ok2 bool
		old, ok = readableText(have)
		new, ok2 = readableText(want)
		if !ok || !ok2 {
			return nil
		}
	}
	old, new = indentJSON(old), indentJSON(new)
	if !strings.Contains(strings.TrimSpace(old), "\n") && !strings.Contains(strings.TrimSpace(new), "\n") {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(string(diff.Diff("old", withNewline(old), "new", withNewline(new))), "\n"), "\n")
	return lines[min(3, len(lines)):] // without the headers
}

// withNewline adds a final newline to a text, so that a missing one is not shown as a difference.
func withNewline(s string) []byte {
	if s == "" || strings.HasSuffix(s, "\n") {
		return []byte(s)
	}
	return []byte(s + "\n")
}
