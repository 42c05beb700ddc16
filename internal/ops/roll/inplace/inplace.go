// Package inplace has machines changed in place: it asks by annotations of their
// nodes, and reads the results there.
//
// It must not know when a machine is to be changed, nor what the machine does.
package inplace

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/engine/fault"
)

// Request asks the machine of a node to apply the node configuration of a hash,
// which must be its group's, and to read the other files that shape it again. It returns the
// nonce of the request. An unfinished request with the same hash is kept.
func Request(ctx context.Context, nodes corev1client.NodeInterface, node, hash string) (nonce string, err error) {
	n, err := nodes.Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("ask the machine of the node %s to change: %w", node, err)
	}
	asked, there, err := labels.Read[labels.Apply](n.Annotations, labels.ApplyConfig)
	if err == nil && there && asked.Hash == hash && asked.Nonce != "" {
		if done, _ := Result(n); !done {
			return asked.Nonce, nil
		}
	}
	asked = labels.Apply{Hash: hash, Nonce: rand.Text()}
	return asked.Nonce, Ask(ctx, nodes, n, asked)
}

// Ask makes a request with a nonce of the caller's. The same one twice is one request.
func Ask(ctx context.Context, nodes corev1client.NodeInterface, node *corev1.Node, asked labels.Apply) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": node.UID, "annotations": map[string]string{labels.ApplyConfig: labels.Write(asked)}}})
	if err != nil {
		return err
	}
	if _, err := nodes.Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kops"}); err != nil {
		return fmt.Errorf("ask the machine of the node %s to change: %w", node.Name, err)
	}
	return nil
}

// Result reports whether the machine of a node has done what it was asked last. While it
// has not, err is why its last try failed, of class fault.NotYet, as it tries again by
// itself; nil when it has not failed. A node that was asked nothing is fault.Gone.
func Result(node *corev1.Node) (done bool, err error) {
	asked, there, err := labels.Read[labels.Apply](node.Annotations, labels.ApplyConfig)
	if err != nil {
		return false, err
	}
	if !there {
		return false, fault.New(fault.Gone, "the machine of the node %s was not asked to change", node.Name)
	}
	result, _, err := labels.Read[labels.Applied](node.Annotations, labels.ApplyResult)
	switch {
	case err != nil:
		return false, err
	case result.Nonce != asked.Nonce: // from another request
		return false, nil
	case result.Error == "":
		return result.Done, nil
	}
	return false, fault.Wrap(fault.NotYet, fmt.Errorf("the machine of the node %s fails in the phase %s: %w", node.Name, result.Phase, errors.New(result.Error)),
		"it tries again by itself; its log: journalctl --unit=kops-apply")
}
