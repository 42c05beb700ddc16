// Crds writes the custom resource definitions of add-ons, each to the file crds.yaml of its folder,
// from the Go modules of the programs that use them.
//
// It leaves out what only readers use: descriptions, warnings, and annotations of generators.
//
//	go run ./tools/crds [FOLDER ...]
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// source is where the definitions of an add-on are from.
type source struct {
	Module  string `json:"module"`
	Version string `json:"version"`
	// Files are patterns of files in the module.
	Files []string `json:"files"`
	// Served are versions that are served although the module's definitions do not.
	Served []string `json:"served"`
}

const out = "internal/spec/catalogue/addons"

// list has the sources of each add-on's definitions, by its folder.
//
//go:embed sources.yaml
var list []byte

func main() {
	var all map[string][]source
	if err := yaml.UnmarshalStrict(list, &all); err != nil {
		fmt.Fprintf(os.Stderr, "crds: read the sources: %v\n", err)
		os.Exit(1)
	}
	folders := os.Args[1:]
	for folder := range all {
		if len(os.Args) == 1 {
			folders = append(folders, folder)
		}
	}
	slices.Sort(folders)
	for _, folder := range folders {
		if err := write(folder, all[folder]); err != nil {
			fmt.Fprintf(os.Stderr, "crds: %s: %v\n", folder, err)
			os.Exit(1)
		}
	}
}

func write(folder string, from []source) error {
	if len(from) == 0 {
		return fmt.Errorf("it has no source")
	}
	text := []byte("# Written by tools/crds.\n")
	for _, s := range from {
		dir, err := download(s)
		if err != nil {
			return err
		}
		for _, pattern := range s.Files {
			files, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil || len(files) == 0 {
				return fmt.Errorf("%s %s has no %s", s.Module, s.Version, pattern)
			}
			for _, f := range files {
				one, err := definition(f, s.Served)
				if err != nil {
					return err
				}
				text = append(append(text, "---\n"...), one...)
			}
		}
	}
	return os.WriteFile(filepath.Join(out, folder, "crds.yaml"), text, 0o644)
}

// download returns the folder of a module.
func download(s source) (string, error) {
	c := exec.Command("go", "mod", "download", "-json", s.Module+"@"+s.Version)
	c.Dir, c.Stderr = os.TempDir(), os.Stderr // outside of this module, which does not need it
	c.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	text, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("download %s %s: %w", s.Module, s.Version, err)
	}
	var module struct{ Dir string }
	err = json.Unmarshal(text, &module)
	return module.Dir, err
}

// definition returns the definition in a file, without what only readers use.
func definition(file string, served []string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var d map[string]any
	if err := yaml.Unmarshal(bytes.TrimPrefix(text, []byte("---\n")), &d); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	old, _ := d["metadata"].(map[string]any)
	metadata := map[string]any{"name": old["name"]}
	const approved = "api-approved.kubernetes.io" // without it, the API server refuses groups of Kubernetes
	if a, _ := old["annotations"].(map[string]any); a[approved] != nil {
		metadata["annotations"] = map[string]any{approved: a[approved]}
	}
	spec, _ := d["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if name, _ := version["name"].(string); slices.Contains(served, name) {
			version["served"] = true
		}
		delete(version, "deprecationWarning") // the API server has its own
		columns, _ := version["additionalPrinterColumns"].([]any)
		for _, c := range columns {
			column, _ := c.(map[string]any)
			delete(column, "description")
		}
		schema, _ := version["schema"].(map[string]any)
		undescribe(schema["openAPIV3Schema"])
	}
	return yaml.Marshal(map[string]any{"apiVersion": d["apiVersion"], "kind": d["kind"], "metadata": metadata, "spec": spec})
}

// undescribe removes the descriptions of a schema and of those below it.
func undescribe(schema any) {
	s, ok := schema.(map[string]any)
	if !ok {
		return
	}
	delete(s, "description")
	for _, list := range []string{"allOf", "anyOf", "oneOf"} {
		all, _ := s[list].([]any)
		for _, one := range all {
			undescribe(one)
		}
	}
	for _, one := range []string{"items", "additionalProperties", "not"} {
		undescribe(s[one])
	}
	properties, _ := s["properties"].(map[string]any)
	for _, p := range properties {
		undescribe(p)
	}
}
