package labels

import (
	"maps"
	"strings"
)

// Labels of the objects of add-ons.
const (
	// Addon has the name of the object's add-on.
	Addon = "addon.kops.k8s.io/name"
	// ManagedBy has the value Kops on the objects of kops' own add-ons (Kubernetes, "Recommended
	// Labels"), and PodManagedBy has it on their pods.
	ManagedBy    = "app.kubernetes.io/managed-by"
	PodManagedBy = "kops.k8s.io/managed-by"
	Kops         = "kops"
)

// Values of an add-on's needsRollingUpdate: whose machines must be replaced after a change of its objects.
const (
	RollControlPlane = "control-plane"
	RollWorkers      = "workers"
	RollAll          = "all"
)

// WithoutLiveKeys returns an object of an add-on without what its users re-read periodically (LiveKeys):
// if anything else changes, machines must be replaced where the add-on needs a rolling update. The object
// is not changed.
func WithoutLiveKeys(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	keys, live := annotations[LiveKeys].(string)
	if !live {
		return object
	}
	object, metadata, annotations = maps.Clone(object), maps.Clone(metadata), maps.Clone(annotations)
	object["metadata"] = metadata
	if delete(annotations, LiveKeys); len(annotations) > 0 {
		metadata["annotations"] = annotations
	} else {
		delete(metadata, "annotations")
	}
	if data, ok := object["data"].(map[string]any); ok {
		data = maps.Clone(data)
		for key := range strings.SplitSeq(keys, ",") {
			delete(data, key)
		}
		object["data"] = data
	}
	return object
}
