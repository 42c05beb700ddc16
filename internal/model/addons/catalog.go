package addons

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"text/template"

	"sigs.k8s.io/yaml"
)

//go:embed catalog
var catalog embed.FS

// edition is one folder of the catalogue, parsed.
type edition struct {
	folder   string
	head     *template.Template
	manifest *template.Template // nil where kops has none
}

// meta is what addon.yaml says for a cluster.
type meta struct {
	// Name is the add-on's name in the channel.
	Name string `json:"name"`
	// ID tells the editions of an add-on apart; a new one is applied anew.
	ID string `json:"id,omitempty"`
	// File is the manifest's name; the ID with .yaml when empty.
	File string `json:"file,omitempty"`
	// When says whether the add-on belongs to the cluster.
	When bool `json:"when"`
	// Selector is the label of its objects besides the common ones; k8s-addon: NAME when absent.
	Selector map[string]string `json:"selector"`
	// Prune has objects deleted that the manifest no longer holds.
	Prune bool `json:"prune,omitempty"`
	// NeedsRollingUpdate names the nodes that a new edition makes due: control-plane, workers or all.
	NeedsRollingUpdate string `json:"needsRollingUpdate,omitempty"`
	// NeedsPKI has an authority of its own made for the add-on.
	NeedsPKI bool `json:"needsPKI,omitempty"`
	// Replaceable lets objects of the user's that bear the add-on's name stand for the manifest.
	Replaceable bool `json:"replaceable,omitempty"`
}

func (m meta) file() string {
	if m.File != "" {
		return m.File
	}
	return m.ID + ".yaml"
}

func (m meta) selector() map[string]string {
	if m.Selector == nil {
		return map[string]string{"k8s-addon": m.Name}
	}
	if len(m.Selector) == 0 {
		return nil
	}
	return m.Selector
}

// catalogue is the parsed catalogue, in the order of its folders' names.
var catalogue = sync.OnceValues(func() ([]edition, error) {
	folders, err := fs.ReadDir(catalog, "catalog")
	if err != nil {
		return nil, fmt.Errorf("read the catalogue of add-ons: %w", err)
	}
	var out []edition
	for _, f := range folders {
		e := edition{folder: f.Name()}
		if e.head, err = parse(f.Name(), "addon.yaml"); err != nil {
			return nil, err
		}
		e.manifest, err = parse(f.Name(), "manifest.yaml")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
})

func parse(folder, file string) (*template.Template, error) {
	name := "catalog/" + folder + "/" + file
	text, err := catalog.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the catalogue of add-ons: %w", err)
	}
	t, err := template.New(folder + "/" + file).Option("missingkey=error").Funcs(functions(nil)).Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("parse the catalogue of add-ons: %w", err)
	}
	return t, nil
}

func (e edition) meta(v *View) (meta, error) {
	text, err := v.fill(e.head)
	if err != nil {
		return meta{}, err
	}
	var m meta
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		return meta{}, fmt.Errorf("read %s: %w", e.head.Name(), err)
	}
	return m, nil
}

// objects returns the objects of the manifest, and whether there is one.
func (e edition) objects(v *View) ([]map[string]any, bool, error) {
	if e.manifest == nil {
		return nil, false, nil
	}
	text, err := v.fill(e.manifest)
	if err != nil {
		return nil, false, err
	}
	objects, err := Decode(text)
	if err != nil {
		return nil, false, fmt.Errorf("read %s: %w", e.manifest.Name(), err)
	}
	return objects, true, nil
}

// fill executes a template over the view.
func (v *View) fill(t *template.Template) ([]byte, error) {
	own, err := t.Clone()
	if err != nil {
		return nil, fmt.Errorf("fill %s: %w", t.Name(), err)
	}
	include := func(name string, data any) (string, error) {
		var b bytes.Buffer
		err := own.ExecuteTemplate(&b, name, data)
		return b.String(), err
	}
	var b bytes.Buffer
	if err := own.Funcs(functions(v)).Funcs(template.FuncMap{"include": include}).Execute(&b, v); err != nil {
		return nil, fmt.Errorf("fill in the template: %w", err)
	}
	return b.Bytes(), nil
}
