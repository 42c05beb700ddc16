package channels

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// whyUnhealthy returns why an object does not work yet; "" if it works, or if its
// kind has no known health. A DaemonSet whose pods are replaced only when they are
// deleted need not run its newest version.
func whyUnhealthy(o *unstructured.Unstructured) (string, error) {
	switch o.GroupVersionKind().GroupKind().String() {
	case "Deployment.apps":
		var d appsv1.Deployment
		if err := convert(o, &d); err != nil {
			return "", err
		}
		return deployment(&d), nil
	case "DaemonSet.apps":
		var d appsv1.DaemonSet
		if err := convert(o, &d); err != nil {
			return "", err
		}
		return daemonSet(&d), nil
	case "StatefulSet.apps":
		var s appsv1.StatefulSet
		if err := convert(o, &s); err != nil {
			return "", err
		}
		return statefulSet(&s), nil
	case "CustomResourceDefinition.apiextensions.k8s.io":
		return condition(o, "Established"), nil
	case "APIService.apiregistration.k8s.io":
		return condition(o, "Available"), nil
	}
	return "", nil
}

func convert(o *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
		return fmt.Errorf("read %s: %w", nameOf(o), err)
	}
	return nil
}

func deployment(d *appsv1.Deployment) string {
	s, want := d.Status, replicas(d.Spec.Replicas)
	return pods(s.ObservedGeneration < d.Generation, want, s.UpdatedReplicas, s.AvailableReplicas, "available")
}

// replicas returns the number of wanted pods; the API's default is one.
func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// pods returns how many of the wanted pods are not of the newest version, or do not
// work; "" if none. unseen means that these numbers are for another version of the
// object.
func pods(unseen bool, want, updated, working int32, work string) string {
	switch {
	case unseen:
		return "its controller has not seen the change yet"
	case updated < want:
		return fmt.Sprintf("%d of %d pods have the new version", updated, want)
	case working < want:
		return fmt.Sprintf("%d of %d pods are %s", working, want, work)
	}
	return ""
}

func daemonSet(d *appsv1.DaemonSet) string {
	s, updated := d.Status, d.Status.UpdatedNumberScheduled
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		updated = s.DesiredNumberScheduled
	}
	return pods(s.ObservedGeneration < d.Generation, s.DesiredNumberScheduled, updated, s.NumberAvailable, "available")
}

func statefulSet(d *appsv1.StatefulSet) string {
	s, want, updated := d.Status, replicas(d.Spec.Replicas), d.Status.UpdatedReplicas
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		updated = want
	}
	return pods(s.ObservedGeneration < d.Generation, want, updated, s.ReadyReplicas, "ready")
}

// condition returns a message if a condition of an object is not True.
func condition(o *unstructured.Unstructured, kind string) string {
	all, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err != nil {
		return "its conditions cannot be read"
	}
	for _, c := range all {
		if m, ok := c.(map[string]any); ok && m["type"] == kind {
			if m["status"] == "True" {
				return ""
			}
			return fmt.Sprintf("it is not %s: %v", kind, m["message"])
		}
	}
	return "it is not " + kind
}
