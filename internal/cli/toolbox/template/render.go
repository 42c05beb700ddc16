// Package template renders objects from Go templates and values, as `kops toolbox template`
// does.
//
// It must not know what the objects mean. A template reaches no network, and the environment
// only by functions that it is given.
package template

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"
)

// File is a template with the name by which messages call it.
type File struct {
	Name string
	Text string
}

// Options say how templates are rendered.
type Options struct {
	// Values are what a template finds below the dot.
	Values map[string]any
	// Snippets are templates that others include by their names.
	Snippets map[string]string
	// FailOnMissing refuses a template that uses a value which is not set.
	FailOnMissing bool
	// Functions are further ones, beside sprig's.
	Functions template.FuncMap
}

// Render returns what becomes of each template, as documents of one YAML file.
func Render(files []File, o Options) (string, error) {
	var docs []string
	for _, f := range files {
		text, err := render(f, o)
		if err != nil {
			return "", fmt.Errorf("template %s: %w", f.Name, err)
		}
		docs = append(docs, text)
	}
	return strings.Join(docs, "---\n"), nil
}

func render(f File, o Options) (string, error) {
	set := template.New(f.Name)
	option := "missingkey=zero"
	if o.FailOnMissing {
		option = "missingkey=error"
	}
	set.Option(option).Funcs(functions(set)).Funcs(o.Functions)
	for name, text := range o.Snippets {
		if _, err := set.New(name).Parse(text); err != nil {
			return "", err
		}
	}
	t, err := set.Parse(f.Text)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, o.Values); err != nil {
		return "", explained(err)
	}
	text := strings.TrimSpace(out.String()) + "\n"
	return strings.TrimPrefix(text, "---\n"), nil
}

// explained says what to do about a value that is missing.
func explained(err error) error {
	if exec := (template.ExecError{}); errors.As(err, &exec) && strings.Contains(err.Error(), "map has no entry for key") {
		return fmt.Errorf("%w; set it with --values or --set, or leave it empty with --fail-on-missing=false", err)
	}
	return err
}

// functions are sprig's without those that read the environment of this process, and include.
func functions(set *template.Template) template.FuncMap {
	all := maps.Clone(sprig.TxtFuncMap())
	for _, name := range []string{"env", "expandenv", "getHostByName"} {
		delete(all, name)
	}
	all["include"] = func(name string, data any) (string, error) {
		if set.Lookup(name) == nil {
			return "", fmt.Errorf("there is no snippet %s; name its file or folder with --snippets", name)
		}
		var out bytes.Buffer
		err := set.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	return all
}

// Format writes YAML documents again, each with its keys in order and the usual indents.
func Format(text string) (string, error) {
	var docs []string
	for i, doc := range strings.Split(text, "\n---\n") {
		var tree any
		if err := yaml.Unmarshal([]byte(doc), &tree); err != nil {
			return "", fmt.Errorf("document %d of the output is no YAML: %w", i+1, err)
		}
		out, err := yaml.Marshal(tree)
		if err != nil {
			return "", fmt.Errorf("format document %d of the output: %w", i+1, err)
		}
		docs = append(docs, string(out))
	}
	return strings.Join(docs, "---\n"), nil
}
