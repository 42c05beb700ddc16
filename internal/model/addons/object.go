package addons

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/spec/catalogue"
)

// Decode reads the objects of a manifest with any number of documents. Duplicate keys are rejected.
func Decode(text []byte) ([]map[string]any, error) {
	var out []map[string]any
	for n, doc := range splitDocuments(text) {
		var o map[string]any
		if err := yaml.UnmarshalStrict(doc, &o); err != nil {
			return nil, fmt.Errorf("document %d: %w", n+1, err)
		}
		if o == nil {
			continue
		}
		if o["kind"] == nil || o["apiVersion"] == nil {
			return nil, fmt.Errorf("document %d has no kind or no apiVersion", n+1)
		}
		out = append(out, o)
	}
	return out, nil
}

// splitDocuments splits a text at the lines that consist of three dashes.
func splitDocuments(text []byte) [][]byte {
	var out [][]byte
	var doc bytes.Buffer
	for line := range bytes.Lines(text) {
		if string(bytes.TrimRight(line, " \r\n")) == "---" {
			out = append(out, bytes.Clone(doc.Bytes()))
			doc.Reset()
			continue
		}
		doc.Write(line)
	}
	return append(out, doc.Bytes())
}

// separator is between two documents of a file.
const separator = "\n---\n\n"

// encode writes objects as documents of one file.
func encode(objects []map[string]any) ([]byte, error) {
	docs := make([][]byte, len(objects))
	for i, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", nameOf(o), err)
		}
		docs[i] = text
	}
	return bytes.Join(docs, []byte(separator)), nil
}

// labelAll adds the labels of an add-on to the objects of a manifest.
func labelAll(text []byte, addon string, selector map[string]string) ([]byte, error) {
	objects, err := Decode(text)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		label(o, addon, selector)
	}
	return encode(objects)
}

func nameOf(o map[string]any) string {
	return fmt.Sprintf("%v/%v", o["kind"], field(o, "metadata")["name"])
}

// isConfiguration reports whether an object is of a kind that users have, too: what add-ons never change
// if it is a user's.
func isConfiguration(o map[string]any) bool {
	return o["apiVersion"] == "v1" && (o["kind"] == "ConfigMap" || o["kind"] == "Secret")
}

// placeOf returns KIND NAMESPACE/NAME; an object without a namespace is in the namespace default.
func placeOf(o map[string]any) string {
	m, _ := o["metadata"].(map[string]any)
	namespace, _ := m["namespace"].(string)
	return fmt.Sprintf("%v %s/%v", o["kind"], cmp.Or(namespace, "default"), m["name"])
}

// field returns a nested map, which is created if absent.
func field(o map[string]any, path ...string) map[string]any {
	for _, p := range path {
		next, ok := o[p].(map[string]any)
		if !ok {
			next = map[string]any{}
			o[p] = next
		}
		o = next
	}
	return o
}

// label adds to an object the labels of its add-on.
func label(o map[string]any, addon string, selector map[string]string) {
	own := field(o, "metadata", "labels")
	own[labels.ManagedBy], own[labels.Addon] = labels.Kops, addon
	for k, v := range selector {
		own[k] = v
	}
	switch o["kind"] {
	case "Deployment", "DaemonSet":
		field(o, "spec", "template", "metadata", "labels")[labels.PodManagedBy] = labels.Kops
	}
}

// takeLabelled removes the objects that replace an add-on's own from objects, and returns them.
func takeLabelled(objects *[]map[string]any, addon string) []map[string]any {
	var own, rest []map[string]any
	for _, o := range *objects {
		m, _ := o["metadata"].(map[string]any)
		users, _ := m["labels"].(map[string]any)
		if users[labels.Addon] == addon {
			own = append(own, o)
			continue
		}
		rest = append(rest, o)
	}
	*objects = rest
	return own
}

// prunableKinds lists the kinds whose objects any add-on may have, and which may be deleted when they
// are no longer in its manifest. Namespaces and custom resource definitions, whose deletion would
// delete much else, are never included.
func prunableKinds() []api.PruneKind {
	return []api.PruneKind{
		{Kind: "ConfigMap"}, {Kind: "Service"}, {Kind: "ServiceAccount"},
		{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"},
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"},
		{Group: "apps", Kind: "DaemonSet"}, {Group: "apps", Kind: "Deployment"}, {Group: "apps", Kind: "StatefulSet"},
		{Group: "policy", Kind: "PodDisruptionBudget"},
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}, {Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"},
		{Group: "rbac.authorization.k8s.io", Kind: "Role"}, {Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"},
	}
}

// pruneSpec specifies what an add-on's applier may delete: objects in the namespaces for which the
// manifest has objects of the kind, or else in any. It returns nil if nothing may be deleted.
func pruneSpec(of *catalogue.Addon, v *catalogue.View, objects []map[string]any) (*api.PruneSpec, error) {
	if on, err := of.Prune.Holds(v); err != nil || !on {
		return nil, err
	}
	out := &api.PruneSpec{}
	for _, k := range slices.Concat(prunableKinds(), of.PruneKinds) {
		namespaces := map[string]bool{}
		for _, o := range objects {
			group, _, ok := strings.Cut(fmt.Sprint(o["apiVersion"]), "/")
			if !ok {
				group = "" // the core group has only a version
			}
			ns, _ := field(o, "metadata")["namespace"].(string)
			if o["kind"] == k.Kind && group == k.Group && ns != "" {
				namespaces[ns] = true
			}
		}
		k.Namespaces = slices.Sorted(maps.Keys(namespaces))
		k.LabelSelector = labels.Addon + "=" + of.Name + "," + labels.ManagedBy + "=" + labels.Kops
		out.Kinds = append(out.Kinds, k)
	}
	slices.SortStableFunc(out.Kinds, func(a, b api.PruneKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind))
	})
	return out, nil
}
