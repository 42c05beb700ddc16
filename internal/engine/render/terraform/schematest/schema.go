// Package schematest checks rendered Terraform files against the schemas of providers, in the way
// that `terraform validate` does, without Terraform, a provider or a network: types and arguments
// exist and may be set, values can be converted, required arguments are set, and references are
// valid.
//
// It is for tests only, and must not know how the files were created.
package schematest

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
)

// schemas are what `terraform providers schema -json` prints for providers, with the
// services that clusters use.
//
//go:embed testdata/terraform-schema/*.json.gz
var schemas embed.FS

// provider is the part of a provider's schema that is needed here.
type provider struct {
	Config    object            `json:"provider"`
	Resources map[string]object `json:"resource_schemas"`
	Data      map[string]object `json:"data_source_schemas"`
}

type object struct {
	Block block `json:"block"`
}

type block struct {
	Attributes map[string]attribute `json:"attributes"`
	Blocks     map[string]nested    `json:"block_types"`
}

type attribute struct {
	Type     json.RawMessage `json:"type"`
	Required bool            `json:"required"`
	Optional bool            `json:"optional"`
	Computed bool            `json:"computed"`
}

func (a attribute) readOnly() bool { return a.Computed && !a.Optional && !a.Required }

type nested struct {
	Mode  string `json:"nesting_mode"`
	Block block  `json:"block"`
	Min   int    `json:"min_items"`
	Max   int    `json:"max_items"`
}

// maxBlocks returns the maximum number of blocks of the type; 0 means any number.
func (n nested) maxBlocks() int {
	if n.Mode == "single" {
		return 1
	}
	return n.Max
}

// load returns the providers by their names in configurations, such as aws.
func load() (map[string]*provider, error) {
	files, err := fs.Glob(schemas, "testdata/*/*.json.gz")
	if err != nil {
		return nil, fmt.Errorf("list the providers' schemas: %w", err)
	}
	out := map[string]*provider{}
	for _, name := range files {
		text, err := fs.ReadFile(schemas, name)
		if err != nil {
			return nil, fmt.Errorf("read a provider's schema: %w", err)
		}
		r, err := gzip.NewReader(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var doc struct {
			Providers map[string]*provider `json:"provider_schemas"`
		}
		if err := json.NewDecoder(r).Decode(&doc); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for address, p := range doc.Providers {
			out[path.Base(address)] = p
		}
	}
	return out, nil
}
