// Package template renders the templates of `kops toolbox template`: it merges values, and
// offers the functions of sprig. It must not know flags and files.
package template

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/template"
)

// File is a template or a snippet.
type File struct{ Name, Text string }

// Options specify how templates are rendered.
type Options struct {
	Values map[string]any
	// Snippets are templates that others include by these names.
	Snippets map[string]string
	// FailOnMissing rejects a template that uses a value that is not set.
	FailOnMissing bool
	// Functions are additional to sprig's. They replace functions with the same name.
	Functions template.Funcs
}

// Render returns the text of each template, as documents of one YAML file.
func Render(files []File, o Options) (string, error) {
	var docs []string
	for _, f := range files {
		text, err := render(f, o)
		if err != nil {
			return "", explain(err)
		}
		docs = append(docs, text)
	}
	return strings.Join(docs, "---\n"), nil
}

func render(f File, o Options) (string, error) {
	all := functions()
	maps.Copy(all, o.Functions)
	t, err := template.Parse(f.Name, f.Text, all)
	if err != nil {
		return "", err
	}
	for _, name := range slices.Sorted(maps.Keys(o.Snippets)) {
		if t, err = t.Add(name, o.Snippets[name]); err != nil {
			return "", err
		}
	}
	t = t.WithOptions(template.Options{MissingKeysAreZero: !o.FailOnMissing, Methods: method})
	text, err := withInclude(t, o.Snippets).Execute(o.Values)
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(strings.TrimSpace(text)+"\n", "---\n"), nil
}

// maxIncludes limits how deeply snippets may include each other.
const maxIncludes = 1000

// withInclude returns the template with a function include, which returns the text of a snippet.
func withInclude(t *template.Template, snippets map[string]string) *template.Template {
	var all *template.Template
	depth := 0
	all = t.With(template.Funcs{"include": func(name string, data any) (string, error) {
		if depth == maxIncludes {
			return "", fmt.Errorf("snippets include each other more than %d deep", maxIncludes)
		}
		depth++
		defer func() { depth-- }()
		text, err := all.ExecuteDefined(name, data)
		if missing := (&template.UndefinedError{}); errors.As(err, &missing) && missing.Template == name {
			return "", fmt.Errorf("there is no snippet %q%s", name, advice(name, slices.Sorted(maps.Keys(snippets)), "name its file or folder with --snippets"))
		}
		return text, err
	}})
	return all
}

// explain adds a remedy to an error of a template.
func explain(err error) error {
	if missing := (&template.MissingKeyError{}); errors.As(err, &missing) {
		return fmt.Errorf("%w; set it with --values or --set, or allow it with --fail-on-missing=false", err)
	}
	if unknown := (&template.UnknownFunctionError{}); errors.As(err, &unknown) {
		return fmt.Errorf("%w%s", err, advice(unknown.Function, unknown.Known, "see docs/templates.md for the functions"))
	}
	return err
}

// advice suggests the nearest of several names, or something else.
func advice(name string, known []string, otherwise string) string {
	if near := diag.Nearest(name, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return "; " + otherwise
}

// Format reformats YAML documents, with sorted keys, the usual indentation and no comments.
func Format(text string) (string, error) {
	var docs []string
	for i, doc := range documents(text) {
		tree, err := yaml.YAMLToJSONStrict([]byte(doc))
		if err != nil {
			return "", fmt.Errorf("document %d of the output is not valid YAML: %w", i+1, err)
		}
		out, err := yaml.JSONToYAML(tree) // which preserves integers
		if err != nil {
			return "", fmt.Errorf("format document %d of the output: %w", i+1, err)
		}
		docs = append(docs, string(out))
	}
	return strings.Join(docs, "---\n"), nil
}

// documents splits a text at the lines between YAML documents.
func documents(text string) []string {
	out := []string{""}
	for line := range strings.Lines(text) {
		if strings.TrimRight(line, " \t\r\n") == "---" {
			out = append(out, "")
			continue
		}
		out[len(out)-1] += line
	}
	return slices.DeleteFunc(out, func(doc string) bool { return strings.TrimSpace(doc) == "" })
}
