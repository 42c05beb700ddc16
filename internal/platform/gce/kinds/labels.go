package kinds

import (
	"maps"
	"strings"

	"kops.local/kops/internal/platform/gce/gcecloud"
)

// Labels are the labels of an object. Others than kops may add theirs.
type Labels map[string]string

// Foreign reports whether an unwanted label is not one of kops'.
func (Labels) Foreign(key string) bool { return !strings.HasPrefix(key, "k8s-io-") }

// over returns the labels that an object is to have: the wanted ones, and what others added.
// The API replaces all at once.
func (l Labels) over(have map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, have)
	maps.DeleteFunc(out, func(k, _ string) bool { return !l.Foreign(k) })
	maps.Copy(out, l)
	return out
}

// owner is the cluster's label on an object: whether it is there, and this cluster's.
func (w *world) owner(labels map[string]string) (labelled, own bool) {
	label, ok := labels[gcecloud.ClusterLabel]
	return ok, label == gcecloud.Label(w.cluster)
}
