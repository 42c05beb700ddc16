// Package yamltext writes YAML, whatever characters the values hold.
//
// It must not know what the values are.
package yamltext

import (
	"bytes"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/engine/escape"
)

// Marshal returns a value as YAML in which control characters are escaped. The value's fields have the
// names that encoding/json gives them.
func Marshal(value any) ([]byte, error) {
	doc, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	doc = escape.JSON(doc) // without this, sigs.k8s.io/yaml rejects it
	out, err := yaml.JSONToYAML(doc)
	if err != nil {
		return nil, fmt.Errorf("convert JSON to YAML: %w", err)
	}
	if !bytes.ContainsFunc(out, escape.IsHidden) {
		return out, nil
	}
	var indented bytes.Buffer // JSON is YAML, too, and escapes characters that change the order of others
	if err := json.Indent(&indented, doc, "", "  "); err != nil {
		return nil, err
	}
	return append(indented.Bytes(), '\n'), nil
}
