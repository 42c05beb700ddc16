// Package catalogue reads the add-ons that kops has: each is a folder of data, which
// says when the add-on belongs to a cluster, what its settings are by default, what
// else it needs, and which files belong to it.
//
// It must not know any add-on, nor what the stages that ask it make of the data.
package catalogue

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"text/template"

	"sigs.k8s.io/yaml"
)

//go:embed addons
var embedded embed.FS

// Catalogue is add-ons in the order of their folders' names.
type Catalogue struct {
	addons []*Addon
}

// builtin is the catalogue of this program.
var builtin = sync.OnceValue(func() *Catalogue {
	folders, err := fs.Sub(embedded, "addons")
	if err == nil {
		var c *Catalogue
		if c, err = Read(folders); err == nil {
			return c
		}
	}
	panic(fmt.Sprintf("the catalogue of this program cannot be read: %v", err)) // it is a constant, which a test reads
})

// Or returns the catalogue, or that of this program when it is nil.
func (c *Catalogue) Or() *Catalogue {
	if c == nil {
		return builtin()
	}
	return c
}

// Read returns the add-ons of a file system, a folder each.
func Read(folders fs.FS) (*Catalogue, error) {
	entries, err := fs.ReadDir(folders, ".")
	if err != nil {
		return nil, fmt.Errorf("read the catalogue of add-ons: %w", err)
	}
	c := &Catalogue{}
	for _, e := range entries {
		a, err := read(folders, e.Name())
		if err != nil {
			return nil, fmt.Errorf("read the add-on %s: %w", e.Name(), err)
		}
		c.addons = append(c.addons, a)
	}
	return c, nil
}

// Addons lists the add-ons.
func (c *Catalogue) Addons() []*Addon { return c.addons }

// Addon is one folder.
type Addon struct {
	Header
	// Folder is its name.
	Folder string

	templates map[string]func() (*template.Template, error)
}

// Header is what addon.yaml says.
type Header struct {
	// Name is the add-on's name in the channel.
	Name string `json:"name"`
	// ID tells the editions of an add-on apart; a new one is applied anew.
	ID Text `json:"id"`
	// File is the manifest's name; the ID with .yaml when empty.
	File string `json:"file"`
	// Present says whether the cluster has the add-on, from kops or from its user; When
	// says whether kops applies it. Each is the other when absent.
	Present Condition `json:"present"`
	When    Condition `json:"when"`
	// Selector is the label of its objects besides the common ones; k8s-addon: NAME when absent.
	Selector map[string]string `json:"selector"`
	// Prune has objects deleted that the manifest no longer holds.
	Prune Condition `json:"prune"`
	// NeedsRollingUpdate names the nodes that a new edition makes due: control-plane, workers or all.
	NeedsRollingUpdate string `json:"needsRollingUpdate"`
	// NeedsPKI has an authority of its own made for the add-on.
	NeedsPKI Condition `json:"needsPKI"`
	// Replaceable lets objects of the user's that bear the add-on's name stand for the manifest.
	Replaceable bool `json:"replaceable"`

	// Account is the service account of the add-on that may have a role of the cloud's.
	Account Account `json:"account"`
}

// Account is a service account in the namespace kube-system.
type Account struct {
	Name string `json:"name"`
	// When says whether somebody acts as the account; when the add-on is present if absent.
	When Condition `json:"when"`
}

func read(folders fs.FS, folder string) (*Addon, error) {
	files, err := fs.Sub(folders, folder)
	if err != nil {
		return nil, err
	}
	head, err := fs.ReadFile(files, "addon.yaml")
	if err != nil {
		return nil, err
	}
	a := &Addon{Folder: folder, templates: map[string]func() (*template.Template, error){}}
	if err := yaml.UnmarshalStrict(head, &a.Header); err != nil {
		return nil, fmt.Errorf("addon.yaml: %w", err)
	}
	a.When, a.Present = a.When.or(a.Present), a.Present.or(a.When)
	a.Account.When = a.Account.When.or(a.Present)
	rest, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range rest {
		if name == "addon.yaml" {
			continue
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		a.templates[name] = sync.OnceValues(func() (*template.Template, error) { return parse(folder+"/"+name, string(text)) })
	}
	return a, nil
}

// Labels are those of its objects besides the common ones, of which the channel's entry tells.
func (h *Header) Labels() map[string]string {
	switch {
	case h.Selector == nil:
		return map[string]string{"k8s-addon": h.Name}
	case len(h.Selector) == 0:
		return nil
	}
	return h.Selector
}

// Template returns a file of the folder, or nil where it has none of the name.
func (a *Addon) Template(name string) (*template.Template, error) {
	if of := a.templates[name]; of != nil {
		return of()
	}
	return nil, nil
}

// IsAccount reports whether a service account in kube-system is that of an add-on.
func (c *Catalogue) IsAccount(name string) bool {
	return slices.ContainsFunc(c.addons, func(a *Addon) bool { return name != "" && a.Account.Name == name })
}

// ActsAs reports whether an add-on of the cluster acts as the service account.
func (c *Catalogue) ActsAs(v *View, account string) (bool, error) {
	for _, a := range c.addons {
		if account == "" || a.Account.Name != account {
			continue
		}
		if on, err := a.Account.When.Holds(v); err != nil || on {
			return on, err
		}
	}
	return false, nil
}

// parse reads a template, which may call the functions of this package.
func parse(name, text string) (*template.Template, error) {
	t, err := template.New(name).Option("missingkey=error").Funcs(functions()).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	return t, nil
}

// Text is a text that can be a template over a view.
type Text struct {
	plain string
	of    *template.Template // nil for a text that is none
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
	t.of, err = parse("a text", t.plain)
	return err
}

// Fill returns the text for a view.
func (t Text) Fill(view any) (string, error) {
	if t.of == nil {
		return t.plain, nil
	}
	var b strings.Builder
	if err := t.of.Execute(&b, view); err != nil {
		return "", fmt.Errorf("fill in %s: %w", t.plain, err)
	}
	return b.String(), nil
}

// Condition is true or false, or a template over a view that says one of them, or nothing for false.
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

// or returns the condition, or another when it is absent.
func (c Condition) or(other Condition) Condition {
	if c.text.plain == "" {
		return other
	}
	return c
}
