// Package catalogue reads the add-ons of kops: each is a folder of data, which specifies when the
// add-on belongs to a cluster, its default settings, what else it needs, and which files belong to
// it.
//
// It must not know any add-on, nor how the stages use the data.
package catalogue

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/template"
)

//go:embed addons
var embedded embed.FS

// Catalogue is a list of add-ons, in the order of their folders' names.
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
	panic(fmt.Sprintf("the catalogue of this program cannot be read: %v", err)) // it is embedded, and a test reads it
})

// Or returns the catalogue, or this program's own if it is nil.
func (c *Catalogue) Or() *Catalogue {
	if c == nil {
		return builtin()
	}
	return c
}

// Read returns the add-ons in a file system, one per folder.
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
		if err := a.completeNeeds(c); err != nil {
			return nil, fmt.Errorf("read the add-on %s: %w", a.Folder, err)
		}
	}
	return c, nil
}

// find returns the add-on in a folder, or nil.
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

	// Definitions are the custom resource definitions that come before the manifest's objects:
	// documents in YAML, not a template. Empty if there are none.
	Definitions []byte
	converted   struct {
		once sync.Once
		text []byte
		err  error
	}

	templates map[string]func() (*template.Template, error)
}

// Header is the content of addon.yaml.
type Header struct {
	// Name is the add-on's name in the channel.
	Name string `json:"name"`
	// ID distinguishes the editions of an add-on; a new edition is applied again.
	ID Text `json:"id"`
	// File is the manifest's name; by default the ID with .yaml.
	File string `json:"file"`
	// Present holds if the cluster has the add-on, from kops or from its user; When holds if kops
	// applies it. Each defaults to the other.
	Present Condition `json:"present"`
	When    Condition `json:"when"`
	// Selector is the label of its objects in addition to the common ones; by default k8s-addon:
	// NAME.
	Selector map[string]string `json:"selector"`
	// Prune holds if objects are deleted that are no longer in the manifest.
	Prune Condition `json:"prune"`
	// PruneKinds lists kinds of such objects in addition to those that every add-on may have.
	PruneKinds []api.PruneKind `json:"pruneKinds"`
	// NeedsRollingUpdate names the nodes that a new edition makes outdated: control-plane, workers
	// or all.
	NeedsRollingUpdate string `json:"needsRollingUpdate"`
	// NeedsPKI holds if the add-on gets a certificate authority of its own.
	NeedsPKI Condition `json:"needsPKI"`
	// Replaceable means that the user's objects with the add-on's name replace the manifest.
	Replaceable bool `json:"replaceable"`

	// Rule is the add-on's name in findings and explanations; by default the folder.
	Rule string `json:"rule"`
	// Enable tells the user how to enable the add-on.
	Enable string `json:"enable"`
	// Spec is the path of its settings below the spec of a Cluster, in v1alpha3.
	Spec     string   `json:"spec"`
	Defaults Defaults `json:"defaults"`
	Requires []Need   `json:"requires"`
	// Refused lists the settings of an add-on that kops does not support.
	Refused []Refusal `json:"refused"`
	// Account is the add-on's service account, which may have a role in the cloud.
	Account Account `json:"account"`
	// Images are the images of its pods that the manifest does not name with the function image.
	Images []Text `json:"images"`
	Bundle Bundle `json:"bundle"`
}

// Account is a service account in the namespace kube-system.
type Account struct {
	Name string `json:"name"`
	// When holds if the account is in use; by default if the add-on is present.
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
	a.When, a.Present = a.When.orElse(a.Present), a.Present.orElse(a.When)
	a.Account.When = a.Account.When.orElse(a.Present)
	a.Defaults.When = a.Defaults.When.orElse(a.Present)
	for i := range a.Refused {
		a.Refused[i].When = a.Refused[i].When.orElse(a.Present)
	}
	if err := errors.Join(a.checkDefaults(), a.Bundle.check()); err != nil {
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
		if name == "crds.yaml" {
			a.Definitions = text
			continue
		}
		a.templates[name] = sync.OnceValues(func() (*template.Template, error) { return parse(folder+"/"+name, string(text)) })
	}
	return a, nil
}

// ConvertDefinitions returns what convert makes of the definitions. It is called only once: they are
// large, and the same for all clusters.
func (a *Addon) ConvertDefinitions(convert func(text []byte) ([]byte, error)) ([]byte, error) {
	a.converted.once.Do(func() { a.converted.text, a.converted.err = convert(a.Definitions) })
	return a.converted.text, a.converted.err
}

// Labels returns the labels of its objects in addition to the common ones, as listed in the
// channel's entry.
func (h *Header) Labels() map[string]string {
	switch {
	case h.Selector == nil:
		return map[string]string{"k8s-addon": h.Name}
	case len(h.Selector) == 0:
		return nil
	}
	return h.Selector
}

// Template returns a file of the folder, or nil if it does not exist.
func (a *Addon) Template(name string) (*template.Template, error) {
	if of := a.templates[name]; of != nil {
		return of()
	}
	return nil, nil
}

// Policy returns the permissions of the add-on's account on a cloud, for the cloud's model to fill
// in; nil if it has none.
func (a *Addon) Policy(cloud string) (*template.Template, error) {
	return a.Template("policy-" + cloud + ".yaml")
}

// hasPolicy reports whether the add-on has the account and a policy for it on the cloud.
func (a *Addon) hasPolicy(cloud, account string) bool {
	return account != "" && a.Account.Name == account && a.templates["policy-"+cloud+".yaml"] != nil
}

// ActsAs reports whether an add-on of the cluster uses the service account.
func (c *Catalogue) ActsAs(v *View, account string) (bool, error) {
	for _, a := range c.addons {
		if !a.hasPolicy(v.Cloud, account) {
			continue
		}
		if on, err := a.Account.When.Holds(v); err != nil || on {
			return on, err
		}
	}
	return false, nil
}
