// Package inplace changes machines in place: it sends requests as annotations of their nodes, and
// reads the results there.
//
// It must not know when a machine should be changed, nor what the machine does.
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

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/engine/fault"
)

// Nodes reads and changes the nodes of a cluster.
type Nodes interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Node, error)
	Patch(ctx context.Context, name string, t types.PatchType, patch []byte, o metav1.PatchOptions, subresources ...string) (*corev1.Node, error)
}

// Request asks the machine of a node to apply the node configuration with a hash, which must be its
// group's, and to read the other files that shape it again. It returns the nonce of the request. An
// unfinished request with the same hash is kept.
func Request(ctx context.Context, nodes Nodes, node, hash string) (nonce string, err error) {
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
	return asked.Nonce, RequestRestart(ctx, nodes, n, asked)
}

// RequestRestart makes a request with the caller's nonce. The same nonce twice is one request.
func RequestRestart(ctx context.Context, nodes Nodes, node *corev1.Node, asked labels.Apply) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": node.UID, "annotations": map[string]string{labels.ApplyConfig: labels.Write(asked)}}})
	if err != nil {
		return err
	}
	if _, err := nodes.Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kops"}); err != nil {
		return fmt.Errorf("ask the machine of the node %s to change: %w", node.Name, err)
	}
	return nil
}

// Result reports whether the machine of a node has completed its last request. If not, err says why
// its last attempt failed, with class fault.NotYet because the machine tries again, or is nil if
// none has failed. Without a request, the error is fault.Gone.
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
