package channels

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// unhealthy says why an object does not do its work yet; empty means that it
// does, or that nothing is known of its kind. A daemon whose pods are replaced
// only when somebody deletes them need not run its newest version.
func unhealthy(o *unstructured.Unstructured) (string, error) {
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
		return fmt.Errorf("read %s: %w", called(o), err)
	}
	return nil
}

const notSeen = "its controller has not seen the change yet"

func deployment(d *appsv1.Deployment) string {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	switch s := d.Status; {
	case s.ObservedGeneration < d.Generation:
		return notSeen
	case s.UpdatedReplicas < want:
		return fmt.Sprintf("%d of %d pods are of the new version", s.UpdatedReplicas, want)
	case s.AvailableReplicas < want:
		return fmt.Sprintf("%d of %d pods are available", s.AvailableReplicas, want)
	}
	return ""
}

func daemonSet(d *appsv1.DaemonSet) string {
	want := d.Status.DesiredNumberScheduled
	switch s := d.Status; {
	case s.ObservedGeneration < d.Generation:
		return notSeen
	case d.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType && s.UpdatedNumberScheduled < want:
		return fmt.Sprintf("%d of %d pods are of the new version", s.UpdatedNumberScheduled, want)
	case s.NumberAvailable < want:
		return fmt.Sprintf("%d of %d pods are available", s.NumberAvailable, want)
	}
	return ""
}

func statefulSet(d *appsv1.StatefulSet) string {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	switch s := d.Status; {
	case s.ObservedGeneration < d.Generation:
		return notSeen
	case d.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType && s.UpdatedReplicas < want:
		return fmt.Sprintf("%d of %d pods are of the new version", s.UpdatedReplicas, want)
	case s.ReadyReplicas < want:
		return fmt.Sprintf("%d of %d pods are ready", s.ReadyReplicas, want)
	}
	return ""
}

// condition says when a condition of an object is not True.
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
