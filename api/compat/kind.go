package compat

import (
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kops.local/kops/api"
)

// kind is one kind of object with everything needed to read and write it.
type kind struct {
	name  string
	blank func() api.Object // returns an empty one
	steps []step
	// schemas define valid documents, by version.
	schemas map[string]*schema
	// calls maps a version and a path to the other version's name of the field.
	calls map[string]map[string]string
}

// kinds returns the kinds by name. They are created on first use.
var kinds = sync.OnceValue(func() map[string]*kind {
	out := map[string]*kind{}
	for name, blank := range map[string]func() api.Object{
		api.KindCluster:       func() api.Object { return &api.Cluster{} },
		api.KindInstanceGroup: func() api.Object { return &api.InstanceGroup{} },
		api.KindKeyset:        func() api.Object { return &api.Keyset{} },
		api.KindSSHCredential: func() api.Object { return &api.SSHCredential{} },
		api.KindHost:          func() api.Object { return &api.Host{} },
		api.KindChannel:       func() api.Object { return &api.Channel{} },
		api.KindAddons:        func() api.Object { return &api.Addons{} },
	} {
		out[name] = &kind{name: name, blank: blank}
		out[name].derive()
	}
	return out
})

// kindOf returns the kind of an object of our own group, or nil.
func kindOf(o api.Object) *kind {
	if _, foreign := o.(*unstructured.Unstructured); foreign {
		return nil
	}
	return kinds()[api.Kind(o)]
}

// derive derives the schemas from the Go type and the steps.
func (k *kind) derive() {
	t := reflect.TypeOf(k.blank())
	k.steps = stepsOf(k.name)
	older := schemaOf(t, "")
	for _, s := range slices.Backward(k.steps) {
		s.downSchema(older)
	}
	k.schemas = map[string]*schema{api.V1Alpha2: older, api.V1Alpha3: schemaOf(t, "")}

	k.calls = map[string]map[string]string{api.V1Alpha2: {}, api.V1Alpha3: {}}
	older.walk("", func(path string, s *schema) {
		if s.path != path && s.path != "" {
			k.calls[api.V1Alpha2][s.path] = path
			k.calls[api.V1Alpha3][path] = s.path
		}
	})
	for path, r := range retiredOf(k.name) {
		for _, o := range objectsAt(older, parent(path)) {
			o.fields[path[len(parent(path))+1:]] = &schema{retired: &r}
		}
	}
}

// up converts a document from v1alpha2 to v1alpha3.
func (k *kind) up(doc map[string]any) {
	for _, s := range k.steps {
		s.up(doc)
	}
	if k.name == api.KindCluster && len(mapsAt(doc, "spec.cloudProvider.gce")) > 0 {
		dropEmpty(doc, "spec.cloudConfig")
	}
}

// down converts a document from v1alpha3 to v1alpha2, and adds what kOps always writes in that version.
func (k *kind) down(doc map[string]any) {
	for _, s := range slices.Backward(k.steps) {
		s.down(doc)
	}
	if k.name != api.KindCluster {
		return
	}
	for _, iam := range mapsAt(doc, "spec.iam") {
		iam["legacy"] = false
	}
	for _, spec := range mapsAt(doc, "spec") {
		if spec["cloudProvider"] == string(api.CloudGCE) && !hasValue(spec, "cloudConfig") {
			spec["cloudConfig"] = map[string]any{}
		}
	}
}
