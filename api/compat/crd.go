package compat

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kops.local/kops/api"
)

// approval is the annotation that API servers require in a group under k8s.io: who approved its definitions.
const approval = "unapproved, kOps' own group"

// Definition returns the CustomResourceDefinition with which an API server stores a kind's
// objects in one version. A second version would need a conversion webhook.
func Definition(kind, version string) (*unstructured.Unstructured, error) {
	switch kind {
	case api.KindCluster, api.KindInstanceGroup, api.KindKeyset, api.KindSSHCredential, api.KindHost:
	default:
		return nil, fmt.Errorf("no API server keeps objects of kind %q", kind)
	}
	s := kinds()[kind].schemas[version]
	if s == nil {
		return nil, fmt.Errorf("define %s: unknown version %q", kind, version)
	}
	root := s.openAPI()
	properties := root["properties"].(map[string]any) // of an object
	properties["metadata"] = map[string]any{"type": "object"}
	singular := strings.ToLower(kind)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata": map[string]any{
			"name":        singular + "s." + api.Group,
			"annotations": map[string]any{"api-approved.kubernetes.io": approval},
		},
		"spec": map[string]any{
			"group": api.Group,
			"scope": "Namespaced",
			"names": map[string]any{"kind": kind, "listKind": kind + "List", "singular": singular, "plural": singular + "s"},
			"versions": []any{map[string]any{
				"name": version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": root},
			}},
		},
	}}, nil
}

// openAPI returns the schema in the form of a CustomResourceDefinition.
func (s *schema) openAPI() map[string]any {
	switch s.sort {
	case sortObject:
		return s.openAPIObject()
	case sortMap:
		return map[string]any{"type": "object", "additionalProperties": s.elem.openAPI()}
	case sortList:
		return map[string]any{"type": "array", "items": s.elem.openAPI()}
	case sortString:
		return s.openAPIString()
	case sortDuration:
		return map[string]any{"type": "string"}
	case sortTime:
		return map[string]any{"type": "string", "format": "date-time"}
	case sortBytes:
		return map[string]any{"type": "string", "format": "byte"}
	case sortBool:
		return map[string]any{"type": "boolean"}
	case sortInt:
		return s.openAPIInt()
	case sortFloat:
		return map[string]any{"type": "number"}
	case sortIntOrString, sortQuantity:
		return map[string]any{"x-kubernetes-int-or-string": true}
	}
	return map[string]any{"x-kubernetes-preserve-unknown-fields": true}
}

// openAPIObject returns the schema of a map with known fields. Of the retired fields it
// includes those with values that match the behaviour anyway, which kOps writes.
func (s *schema) openAPIObject() map[string]any {
	properties := map[string]any{}
	for name, f := range s.fields {
		switch {
		case f.retired == nil:
			properties[name] = f.openAPI()
		case slices.ContainsFunc(f.retired.silent, func(v string) bool { return v == "true" || v == "false" }):
			properties[name] = map[string]any{"type": "boolean"}
		case len(f.retired.silent) > 0:
			properties[name] = (&schema{sort: sortString, enum: f.retired.silent}).openAPI()
		}
	}
	if len(properties) == 0 {
		return map[string]any{"type": "object"}
	}
	return map[string]any{"type": "object", "properties": properties}
}

// openAPIString returns the schema of a string; one with enumerated values may also be empty.
func (s *schema) openAPIString() map[string]any {
	out := map[string]any{"type": "string"}
	if len(s.enum) > 0 {
		values := []any{""}
		for _, v := range s.enum {
			values = append(values, v)
		}
		out["enum"] = values
	}
	return out
}

// openAPIInt returns the schema of a whole number, with the bounds that its format does not imply.
func (s *schema) openAPIInt() map[string]any {
	out := map[string]any{"type": "integer", "format": fmt.Sprintf("int%d", max(s.bits, 32))}
	if s.unsigned {
		out["minimum"] = int64(0)
	}
	if s.unsigned && s.bits < 64 {
		out["format"], out["maximum"] = "int64", int64(1)<<s.bits-1
	}
	return out
}
