// Crds writes the custom resource definitions of add-ons, each to the file crds.yaml of its folder,
// from the Go modules of the programs that use them.
//
// It leaves out what only readers use: descriptions, warnings, and annotations of generators.
//
//	go run ./tools/crds [FOLDER ...]
package main

import (
	"bytes"
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
	module, version string
	// files are patterns of files in the module.
	files []string
	// served are versions that are served although the module's definitions do not.
	served []string
}

const out = "internal/spec/catalogue/addons"

// sources has the sources of each add-on's definitions, by its folder.
func sources() map[string][]source {
	return map[string][]source{
		"authentication.aws": {{module: "sigs.k8s.io/aws-iam-authenticator", version: "v0.6.20", files: []string{"deploy/iamidentitymapping.yaml"}}},
		"certmanager.io":     {{module: "github.com/cert-manager/cert-manager", version: "v1.21.2", files: []string{"deploy/crds/*.yaml"}}},
		"karpenter.sh": {
			{module: "github.com/aws/karpenter-provider-aws", version: "v1.13.0", files: []string{"pkg/apis/crds/karpenter.k8s.aws_*.yaml"}},
			{module: "sigs.k8s.io/karpenter", version: "v1.13.0", files: []string{"pkg/apis/crds/karpenter.sh_*.yaml"}},
		},
		"snapshot-controller": {{module: "github.com/kubernetes-csi/external-snapshotter/client/v8", version: "v8.4.0",
			files: []string{"config/crd/snapshot.storage.k8s.io_*.yaml"}, served: []string{"v1beta1"}}}, // kOps serves it
	}
}

func main() {
	all := sources()
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
		for _, pattern := range s.files {
			files, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil || len(files) == 0 {
				return fmt.Errorf("%s %s has no %s", s.module, s.version, pattern)
			}
			for _, f := range files {
				one, err := definition(f, s.served)
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
	c := exec.Command("go", "mod", "download", "-json", s.module+"@"+s.version)
	c.Dir, c.Stderr = os.TempDir(), os.Stderr // outside of this module, which does not need it
	c.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	text, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("download %s %s: %w", s.module, s.version, err)
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
