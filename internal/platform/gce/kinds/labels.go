package kinds

import (
	"strings"

	"kops.local/kops/internal/platform/gce/gcecloud"
)

// Labels are the labels of an object. Other programs may add labels, too.
type Labels map[string]string

// Foreign reports whether an unwanted label was not set by kops.
func (Labels) Foreign(key string) bool { return !strings.HasPrefix(key, "k8s-io-") }

// owner reports whether an object has a cluster label, and whether it names this cluster.
func (w *world) owner(labels map[string]string) (labelled, own bool) {
	label, ok := labels[gcecloud.ClusterLabel]
	return ok, label == gcecloud.Label(w.cluster)
}
