package kinds

import (
	"maps"
	"strings"

	"kops.local/kops/internal/platform/gce/gcecloud"
)

// Labels are the labels of an object. Other programs may add labels, too.
type Labels map[string]string

// Foreign reports whether an unwanted label was not set by kops.
func (Labels) Foreign(key string) bool { return !strings.HasPrefix(key, "k8s-io-") }

// merge returns the labels to set on an object: the wanted ones, and those that others added. The
// API replaces all labels at once.
func (l Labels) merge(have map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, have)
	maps.DeleteFunc(out, func(k, _ string) bool { return !l.Foreign(k) })
	maps.Copy(out, l)
	return out
}

// owner reports whether an object has a cluster label, and whether it names this cluster.
func (w *world) owner(labels map[string]string) (labelled, own bool) {
	label, ok := labels[gcecloud.ClusterLabel]
	return ok, label == gcecloud.Label(w.cluster)
}
