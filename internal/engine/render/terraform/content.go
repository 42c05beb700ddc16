package terraform

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"kops.local/kops/internal/engine/resource"
)

// content formats a long text: inline, or as the call that reads the file it is written to. A text
// that refers to other resources is written as a template.
func (w *writer) content(c resource.Content, a resource.Attribute, file string) (string, error) {
	if c.Secret() {
		return "", errors.New("it is secret, and must not be written to a file")
	}
	if digestOnly(c) {
		return "", errors.New("only its digest is known")
	}
	ps, err := w.pieces(c.Value())
	if err != nil {
		return "", err
	}
	if !a.File && !a.File64 && !a.Path && !(a.Lines && severalLines(ps)) {
		return w.value(c.Value())
	}
	var text strings.Builder
	refs := 0
	for _, p := range ps {
		text.WriteString(p.lit)
		if p.ref != "" {
			refs++
		}
	}
	if refs > 0 && a.Path {
		return "", errors.New("it refers to other resources, and only the path of a file is given")
	}
	if refs > 0 {
		return w.template(ps, a, file)
	}
	if err := w.put(file, text.String(), !a.File64); err != nil {
		return "", err
	}
	switch {
	case a.File64:
		return "filebase64(" + modulePath(file) + ")", nil
	case a.Path:
		return modulePath(file), nil
	}
	return "file(" + modulePath(file) + ")", nil
}

// severalLines reports whether a text would be hard to read as an argument.
func severalLines(ps []piece) bool {
	return slices.ContainsFunc(ps, func(p piece) bool { return strings.Contains(p.lit, "\n") })
}

func digestOnly(c resource.Content) bool {
	have, _ := c.Digest()
	empty, _ := resource.Content{}.Digest()
	return c.Value().IsZero() && have != empty
}

// template writes a text with references to a file, and formats the call that fills them in.
func (w *writer) template(ps []piece, a resource.Attribute, file string) (string, error) {
	var text strings.Builder
	vars, names := map[string]string{}, map[string]string{}
	for i, p := range ps {
		if p.ref != "" {
			text.WriteString("${" + variable(p.ref, vars, names) + "}")
			continue
		}
		lit, dollars := p.lit, ""
		if i+1 < len(ps) {
			lit, dollars = cutDollars(p.lit)
		}
		text.WriteString(strings.NewReplacer("${", "$${", "%{", "%%{").Replace(lit) + dollars)
	}
	if err := w.put(file, text.String(), true); err != nil {
		return "", err
	}
	call := "templatefile(" + modulePath(file) + ", " + object(vars) + ")"
	if a.File64 {
		return "base64encode(" + call + ")", nil
	}
	return call, nil
}

// variable returns the template variable for a reference: its text with underscores, or the name of
// a function that is called. vars are the expressions by name, names the names by expression.
func variable(ref string, vars, names map[string]string) string {
	if name, ok := names[ref]; ok {
		return name
	}
	base, _, _ := strings.Cut(ref, "(")
	base = strings.NewReplacer(".", "_", "-", "_").Replace(base)
	name := base
	for i := 2; vars[name] != ""; i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	vars[name], names[ref] = ref, name
	return name
}

// put adds a file. Terraform only reads texts in UTF-8.
func (w *writer) put(file, text string, utf bool) error {
	if utf && !utf8.ValidString(text) {
		return errors.New("its text is not UTF-8")
	}
	if have, taken := w.files[file]; taken && !bytes.Equal(have, []byte(text)) {
		return fmt.Errorf("two different texts would be written to %s", file)
	}
	w.files[file] = []byte(text)
	return nil
}

// modulePath formats the path of a file of the configuration.
func modulePath(file string) string { return `"${path.module}/` + quote(file)[1:] }
