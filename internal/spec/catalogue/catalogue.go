// Package catalogue reads the add-ons that kops has: each is a folder of data, which
// says when the add-on belongs to a cluster, what its settings are by default, what
// else it needs, and which files belong to it.
//
// It must not know any add-on, nor what the stages that ask it make of the data.
package catalogue

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/template"
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

// Or returns the catalogue, or this program's own when it is nil.
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
	for _, a := range c.addons {
		if err := a.settle(c); err != nil {
			return nil, fmt.Errorf("read the add-on %s: %w", a.Folder, err)
		}
	}
	return c, nil
}

// find returns the add-on of a folder, or nil.
func (c *Catalogue) find(folder string) *Addon {
	if i := slices.IndexFunc(c.addons, func(a *Addon) bool { return a.Folder == folder }); i >= 0 {
		return c.addons[i]
	}
	return nil
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
	// ID distinguishes the editions of an add-on; a new edition is applied again.
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

	// Rule is how findings and explanations call the add-on; the folder when empty.
	Rule string `json:"rule"`
	// Enable says to a user how a cluster gets the add-on.
	Enable string `json:"enable"`
	// Spec is the path of its settings below the spec of a Cluster, in v1alpha3.
	Spec     string   `json:"spec"`
	Defaults Defaults `json:"defaults"`
	Requires []Need   `json:"requires"`
	// Account is the service account of the add-on that may have a role of the cloud's.
	Account Account `json:"account"`
	// Images are those that its pods run and no function image of the manifest names.
	Images []Text `json:"images"`
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
	a.Rule = cmp.Or(a.Rule, folder)
	a.When, a.Present = a.When.or(a.Present), a.Present.or(a.When)
	a.Account.When = a.Account.When.or(a.Present)
	a.Defaults.When = a.Defaults.When.or(a.Present)
	if err := a.checkDefaults(); err != nil {
		return nil, err
	}
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

// Labels are the labels of its objects besides the common ones, which the channel's entry names.
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

// Policy returns what the add-on's account may do on a cloud, for the cloud's model to
// fill in; nil where nothing is said.
func (a *Addon) Policy(cloud string) (*template.Template, error) {
	return a.Template("policy-" + cloud + ".yaml")
}

// HasRole reports whether a service account in kube-system belongs to an add-on, to which
// a cloud gives a role.
func (c *Catalogue) HasRole(cloud, account string) bool {
	return slices.ContainsFunc(c.addons, func(a *Addon) bool { return a.has(cloud, account) })
}

// has reports whether the add-on has the account and, on the cloud, a policy of it.
func (a *Addon) has(cloud, account string) bool {
	return account != "" && a.Account.Name == account && a.templates["policy-"+cloud+".yaml"] != nil
}

// ActsAs reports whether an add-on of the cluster acts as the service account.
func (c *Catalogue) ActsAs(v *View, account string) (bool, error) {
	for _, a := range c.addons {
		if !a.has(v.Cloud, account) {
			continue
		}
		if on, err := a.Account.When.Holds(v); err != nil || on {
			return on, err
		}
	}
	return false, nil
}
