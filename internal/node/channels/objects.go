package channels

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// decode parses the objects of a manifest, with lists expanded, in the order in
// which they are applied: namespaces and CustomResourceDefinitions first.
func decode(text []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for n := 1; ; n++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		objects, err := decodeDocument(doc)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		out = append(out, objects...)
	}
	slices.SortStableFunc(out, func(x, y *unstructured.Unstructured) int { return rank(x) - rank(y) })
	return out, nil
}

func decodeDocument(doc []byte) ([]*unstructured.Unstructured, error) {
	text, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return nil, err
	}
	if s := string(bytes.TrimSpace(text)); s == "null" || s == "{}" {
		return nil, nil
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	if !o.IsList() {
		if o.GetName() == "" {
			return nil, fmt.Errorf("a %s has no name", o.GetKind())
		}
		return []*unstructured.Unstructured{o}, nil
	}
	list, err := o.ToList()
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

// rank orders kinds: those that others depend on come first.
func rank(o *unstructured.Unstructured) int {
	switch o.GetKind() {
	case "Namespace":
		return 0
	case "CustomResourceDefinition":
		return 1
	case "ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding", "ConfigMap", "Secret", "PriorityClass":
		return 2
	}
	return 3
}

// nameOf returns an object's name for messages.
func nameOf(o *unstructured.Unstructured) string {
	if ns := o.GetNamespace(); ns != "" {
		return o.GetKind() + " " + ns + "/" + o.GetName()
	}
	return o.GetKind() + " " + o.GetName()
}
