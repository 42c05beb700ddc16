package catalogue

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/template"
)

// parse reads a template, which may call the functions of this package.
func parse(name, text string) (*template.Template, error) {
	t, err := template.Parse(name, text, functions())
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	return t, nil
}

// Text is a text that can be a template for a view.
type Text struct {
	plain    string
	template *template.Template // nil if the text is not a template
}

// UnmarshalJSON reads the text, or true or false.
func (t *Text) UnmarshalJSON(data []byte) error {
	if err := yaml.Unmarshal(data, &t.plain); err != nil {
		return err
	}
	if !strings.Contains(t.plain, "{{") {
		return nil
	}
	var err error
	t.template, err = parse("a text", t.plain)
	return err
}

// Fill returns the text for a view.
func (t Text) Fill(view any) (string, error) {
	if t.template == nil {
		return t.plain, nil
	}
	text, err := t.template.Execute(view)
	if err != nil {
		return "", fmt.Errorf("fill in %s: %w", t.plain, err)
	}
	return text, nil
}

// Condition is true or false, or a template for a view that yields one of them, or nothing for
// false.
type Condition struct{ text Text }

// UnmarshalJSON reads the condition.
func (c *Condition) UnmarshalJSON(data []byte) error { return c.text.UnmarshalJSON(data) }

// Holds reports whether the condition holds; an absent one does not.
func (c Condition) Holds(view any) (bool, error) {
	text, err := c.text.Fill(view)
	switch {
	case err != nil:
		return false, err
	case text != "" && text != "true" && text != "false":
		return false, fmt.Errorf("%s is %q, and neither true nor false", c.text.plain, text)
	}
	return text == "true", nil
}

// orElse returns the condition, or another if it is absent.
func (c Condition) orElse(other Condition) Condition {
	if c.isAbsent() {
		return other
	}
	return c
}

func (c Condition) isAbsent() bool { return c.text.plain == "" }
