package compat

import (
	"bytes"
	"encoding/json"
	"fmt"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/escape/yamltext"
)

// separator separates the documents of a file.
const separator = "\n---\n\n"

// Encode writes objects as YAML in a version of the group (api.V1Alpha2 or
// api.V1Alpha3), as kOps does: keys in alphabetical order, lists not indented, and
// documents divided by --- between empty lines. Objects of other groups are written
// as they are.
func Encode(version string, objects ...api.Object) ([]byte, error) {
	var docs [][]byte
	for _, o := range objects {
		doc, err := document(version, o)
		if err != nil {
			return nil, err
		}
		text, err := yamltext.Marshal(doc)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", api.Name(o), err)
		}
		docs = append(docs, text)
	}
	return bytes.Join(docs, []byte(separator)), nil
}

// EncodeJSON writes objects as indented JSON: one as an object, zero or several as an array.
func EncodeJSON(version string, objects ...api.Object) ([]byte, error) {
	docs := []any{}
	for _, o := range objects {
		doc, err := document(version, o)
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	var all any = docs
	if len(docs) == 1 {
		all = docs[0]
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(all); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return b.Bytes(), nil
}

// document returns an object as a plain document of a version.
func document(version string, o api.Object) (map[string]any, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", api.Name(o), err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var doc map[string]any
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("write %s: %w", api.Name(o), err)
	}
	k := kindOf(o)
	if k == nil {
		return doc, nil
	}
	if version != api.V1Alpha2 && version != api.V1Alpha3 {
		return nil, fmt.Errorf("write %s: unknown version %q", api.Name(o), version)
	}
	doc["kind"] = k.name
	switch k.name {
	case api.KindAddons:
		delete(doc, "apiVersion")
	case api.KindChannel:
		doc["apiVersion"] = api.Group + "/" + api.V1Alpha2
	default:
		doc["apiVersion"] = api.Group + "/" + version
	}
	if c, ok := o.(*api.Cluster); ok && len(c.Spec.CloudProvider.IDs()) > 1 && version == api.V1Alpha2 {
		return nil, fmt.Errorf("write %s: spec.cloudProvider names several clouds, but v1alpha2 can name only one", api.Name(o))
	}
	if version == api.V1Alpha2 {
		k.down(doc)
	}
	return doc, nil
}
