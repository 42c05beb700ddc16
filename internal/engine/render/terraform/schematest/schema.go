// Package schematest checks rendered Terraform files against the schema of the
// AWS provider, the way that `terraform validate` does, without Terraform, the
// provider or a network: types and arguments exist and may be set, values can
// be converted, what is required is there, and references lead somewhere.
//
// It is for tests only, and must not know how the files were made.
package schematest

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
)

// awsSchema is what `terraform providers schema -json` prints for
// registry.terraform.io/hashicorp/aws, with the services that clusters use.
//
//go:embed testdata/terraform-schema/aws.json.gz
var awsSchema []byte

const awsAddress = "registry.terraform.io/hashicorp/aws"

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

// most is how many blocks of the type may stand beside each other; 0 means any number.
func (n nested) most() int {
	if n.Mode == "single" {
		return 1
	}
	return n.Max
}

func loadAWS() (*provider, error) {
	r, err := gzip.NewReader(bytes.NewReader(awsSchema))
	if err != nil {
		return nil, fmt.Errorf("read the provider's schema: %w", err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read the provider's schema: %w", err)
	}
	var doc struct {
		Providers map[string]*provider `json:"provider_schemas"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("read the provider's schema: %w", err)
	}
	p := doc.Providers[awsAddress]
	if p == nil {
		return nil, fmt.Errorf("the schema file does not hold %s", awsAddress)
	}
	return p, nil
}
