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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"kops.local/kops/internal/engine/fault"
)

// restarted annotates the template of pods that are started anew, with the rotation's step.
const restarted = "kops.k8s.io/keys"

// Owner is what makes pods: a Deployment, a StatefulSet or a DaemonSet.
type Owner struct{ Kind, Namespace, Name string }

func (o Owner) String() string { return strings.ToLower(o.Kind) + "/" + o.Name + " in " + o.Namespace }

// Restarts finds what makes the pods that use the API by what they were given at their
// start, and began before a time; and pods that none of these makes, which are to be started
// anew by whoever made them.
func Restarts(pods []corev1.Pod, sets []appsv1.ReplicaSet, before time.Time) (owners []Owner, left []string) {
	deployments := map[string]string{}
	for _, s := range sets {
		if o := metav1.GetControllerOf(&s); o != nil && o.Kind == "Deployment" {
			deployments[s.Namespace+"/"+s.Name] = o.Name
		}
	}
	seen := map[Owner]bool{}
	for _, p := range pods {
		if !usesAPI(&p) || p.CreationTimestamp.After(before) {
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

// usesAPI reports whether a pod that has not ended was given a token of a service account,
// with the cluster's authority beside it.
func usesAPI(p *corev1.Pod) bool {
	if p.Annotations[corev1.MirrorPodAnnotationKey] != "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false
	}
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil })
	})
}

// LookForRestarts asks the API server for what Restarts needs.
func LookForRestarts(ctx context.Context, client kubernetes.Interface, before time.Time) ([]Owner, []string, error) {
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("list the pods: %w", err)
	}
	sets, err := client.AppsV1().ReplicaSets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("list the replica sets: %w", err)
	}
	owners, left := Restarts(pods.Items, sets.Items, before)
	return owners, left, nil
}

// Restart has an owner start its pods anew, as its strategy says, unless it was asked to
// with the same mark before.
func Restart(ctx context.Context, client kubernetes.Interface, o Owner, mark string) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]string{restarted: mark}}}}})
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: "kops-rotate"}
	switch o.Kind {
	case "Deployment":
		_, err = client.AppsV1().Deployments(o.Namespace).Patch(ctx, o.Name, types.MergePatchType, patch, options)
	case "StatefulSet":
		_, err = client.AppsV1().StatefulSets(o.Namespace).Patch(ctx, o.Name, types.MergePatchType, patch, options)
	default:
		_, err = client.AppsV1().DaemonSets(o.Namespace).Patch(ctx, o.Name, types.MergePatchType, patch, options)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("start the pods of %s anew: %w", o, err)
	}
	return nil
}

// Wait waits until no pod of an owner's is of before, as long as a time.
func Wait(ctx context.Context, client kubernetes.Interface, owners []Owner, before time.Time, most time.Duration, now func() time.Time, sleep func(context.Context, time.Duration) error) error {
	for began := now(); ; {
		still, _, err := LookForRestarts(ctx, client, before)
		if err != nil {
			return err
		}
		still = slices.DeleteFunc(still, func(o Owner) bool { return !slices.Contains(owners, o) })
		if len(still) == 0 {
			return nil
		}
		if now().Sub(began) > most {
			return fault.Wrap(fault.NotYet, fmt.Errorf("pods of %s are not started anew after %v", still[0], most),
				"see why: kubectl get pods -n "+still[0].Namespace+"; where its update strategy is OnDelete, delete them; then run the command again")
		}
		if err := sleep(ctx, 2*time.Second); err != nil {
			return err
		}
	}
}

// RenewTokens has the Secrets with tokens of service accounts get tokens of the key that signs
// now: a token that is taken out is made anew by the controller manager. It returns how many.
func RenewTokens(ctx context.Context, client kubernetes.Interface, before time.Time) (int, error) {
	list, err := client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)})
	if err != nil {
		return 0, fmt.Errorf("list the tokens of service accounts: %w", err)
	}
	n := 0
	mark := before.UTC().Format(time.RFC3339)
	for _, s := range list.Items {
		if s.Annotations[restarted] == mark {
			continue
		}
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}},"data":{"token":null}}`, restarted, mark)
		_, err := client.CoreV1().Secrets(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kops-rotate"})
		if err != nil && !apierrors.IsNotFound(err) {
			return n, fmt.Errorf("renew the token %s/%s: %w", s.Namespace, s.Name, err)
		}
		n++
	}
	return n, nil
}
