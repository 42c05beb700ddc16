package rotate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/kubeclient"
)

// restarted annotates the template of restarted pods with the rotation's step.
const restarted = "kops.k8s.io/keys"

// look is the time between two checks for restarted pods.
const look = 2 * time.Second

// restartMark returns the value of that annotation for a restart of pods created before a time.
func restartMark(before time.Time) string { return before.UTC().Format(time.RFC3339) }

// isOlder reports whether a pod was created before a time. Creation times are in whole seconds; a pod
// created in the same second is recognized by its template's annotation.
func isOlder(p *corev1.Pod, before time.Time) bool {
	return !p.CreationTimestamp.After(before) && p.Annotations[restarted] != restartMark(before)
}

// Owner is what creates pods: a Deployment, a StatefulSet or a DaemonSet.
type Owner struct{ Kind, Namespace, Name string }

func (o Owner) String() string { return strings.ToLower(o.Kind) + "/" + o.Name + " in " + o.Namespace }

// Restarts finds the owners of pods that use the API with credentials read at startup, and were
// created before a time; and such pods without a known owner, which their creators must restart.
func Restarts(pods []corev1.Pod, sets []appsv1.ReplicaSet, before time.Time) (owners []Owner, left []string) {
	deployments := map[string]string{}
	for _, s := range sets {
		if o := metav1.GetControllerOf(&s); o != nil && o.Kind == "Deployment" {
			deployments[s.Namespace+"/"+s.Name] = o.Name
		}
	}
	seen := map[Owner]bool{}
	for _, p := range pods {
		if !usesAPI(&p) || !isOlder(&p, before) {
			continue
		}
		owner := Owner{Namespace: p.Namespace}
		if o := metav1.GetControllerOf(&p); o != nil {
			switch owner.Kind, owner.Name = o.Kind, o.Name; o.Kind {
			case "ReplicaSet":
				owner.Kind, owner.Name = "Deployment", deployments[p.Namespace+"/"+o.Name]
			case "StatefulSet", "DaemonSet":
			default:
				owner.Name = ""
			}
		}
		if owner.Name == "" {
			left = append(left, p.Namespace+"/"+p.Name)
			continue
		}
		if !seen[owner] {
			seen[owner] = true
			owners = append(owners, owner)
		}
	}
	slices.Sort(left)
	slices.SortFunc(owners, func(a, b Owner) int { return strings.Compare(a.String(), b.String()) })
	return owners, left
}

// usesAPI reports whether a running or pending pod has a service account token, with the cluster's
// authority next to it.
func usesAPI(p *corev1.Pod) bool {
	if p.Annotations[corev1.MirrorPodAnnotationKey] != "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false
	}
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil })
	})
}

// FindRestarts queries the API server for what Restarts needs, and calls it.
func FindRestarts(ctx context.Context, client *kubeclient.Client, before time.Time) ([]Owner, []string, error) {
	pods, err := client.Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("list the pods: %w", err)
	}
	sets, err := client.ReplicaSets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("list the replica sets: %w", err)
	}
	owners, left := Restarts(pods.Items, sets.Items, before)
	return owners, left, nil
}

// Restart makes an owner restart its pods that were created before a time, by its own strategy,
// unless that was requested before. onDelete is true if it only replaces pods that are deleted.
func Restart(ctx context.Context, client *kubeclient.Client, o Owner, before time.Time) (onDelete bool, err error) {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]string{restarted: restartMark(before)}}}}})
	if err != nil {
		return false, err
	}
	options := metav1.PatchOptions{FieldManager: "kops-rotate"}
	switch o.Kind {
	case "Deployment":
		_, err = client.Deployments(o.Namespace).Patch(ctx, o.Name, types.MergePatchType, patch, options)
	case "StatefulSet":
		var s *appsv1.StatefulSet
		if s, err = client.StatefulSets(o.Namespace).Patch(ctx, o.Name, types.MergePatchType, patch, options); err == nil {
			onDelete = s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
		}
	default:
		var d *appsv1.DaemonSet
		if d, err = client.DaemonSets(o.Namespace).Patch(ctx, o.Name, types.MergePatchType, patch, options); err == nil {
			onDelete = d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType
		}
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("restart the pods of %s: %w", o, err)
	}
	return onDelete, nil
}

// Evict evicts pods of owners that were created before a time within their budgets, one pod of each
// owner at a time, while all the others are ready. It must be called repeatedly until none is left.
func Evict(ctx context.Context, client *kubeclient.Client, owners []Owner, before time.Time) error {
	for _, o := range owners {
		all, err := client.Pods(o.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list the pods of %s: %w", o, err)
		}
		size, err := size(ctx, client, o)
		if err != nil {
			return err
		}
		victim := nextToEvict(all.Items, o, size, before)
		if victim == nil {
			continue
		}
		err = client.Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: victim.Name, Namespace: o.Namespace}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err) { // it is tried again
			return fmt.Errorf("evict the pod %s/%s: %w", o.Namespace, victim.Name, err)
		}
	}
	return nil
}

// size returns how many pods an owner should have.
func size(ctx context.Context, client *kubeclient.Client, o Owner) (n int, err error) {
	if o.Kind == "StatefulSet" {
		var s *appsv1.StatefulSet
		if s, err = client.StatefulSets(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{}); err == nil {
			if s.Spec.Replicas != nil {
				n = int(*s.Spec.Replicas)
			}
		}
	} else {
		var d *appsv1.DaemonSet
		if d, err = client.DaemonSets(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{}); err == nil {
			n = int(d.Status.DesiredNumberScheduled)
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("read the number of replicas of %s: %w", o, err)
	}
	return n, nil
}

// nextToEvict returns the pod of an owner that may be evicted now, or nil. size is how many pods
// the owner should have.
func nextToEvict(pods []corev1.Pod, o Owner, size int, before time.Time) *corev1.Pod {
	var victim *corev1.Pod
	found := 0
	for i, p := range pods {
		if c := metav1.GetControllerOf(&p); c == nil || c.Kind != o.Kind || c.Name != o.Name {
			continue
		}
		found++
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		switch stale := isOlder(&p, before); {
		case p.DeletionTimestamp != nil, !ready && !stale:
			return nil
		case stale && (victim == nil || !ready): // a pod that is not ready goes first
			victim = &pods[i]
		}
	}
	if found < size {
		return nil // the replacement of the last one was not created yet
	}
	return victim
}

// Wait blocks until every pod of the owners was created after before, or most has passed. Pods of
// onDelete owners are evicted.
func Wait(ctx context.Context, client *kubeclient.Client, owners, onDelete []Owner, before time.Time, most time.Duration, now func() time.Time, sleep func(context.Context, time.Duration) error) error {
	for began := now(); ; {
		still, _, err := FindRestarts(ctx, client, before)
		if err != nil {
			return err
		}
		still = slices.DeleteFunc(still, func(o Owner) bool { return !slices.Contains(owners, o) })
		if len(still) == 0 {
			return nil
		}
		if now().Sub(began) > most {
			return fault.Wrap(fault.NotYet, fmt.Errorf("pods of %s have not restarted after %v", still[0], most),
				"see why: kubectl get pods -n "+still[0].Namespace+"; then run the command again")
		}
		if err := Evict(ctx, client, onDelete, before); err != nil {
			return err
		}
		if err := sleep(ctx, look); err != nil {
			return err
		}
	}
}

// RenewTokens replaces the service account tokens in Secrets with tokens signed by the current key:
// the controller manager recreates removed tokens. It returns how many were replaced.
func RenewTokens(ctx context.Context, client *kubeclient.Client, before time.Time) (int, error) {
	list, err := client.Secrets("").List(ctx, metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)})
	if err != nil {
		return 0, fmt.Errorf("list the tokens of service accounts: %w", err)
	}
	n := 0
	for _, s := range list.Items {
		if s.Annotations[restarted] == restartMark(before) {
			continue
		}
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}},"data":{"token":null}}`, restarted, restartMark(before))
		_, err := client.Secrets(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kops-rotate"})
		if err != nil && !apierrors.IsNotFound(err) {
			return n, fmt.Errorf("renew the token %s/%s: %w", s.Namespace, s.Name, err)
		}
		n++
	}
	return n, nil
}
