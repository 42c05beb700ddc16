package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	// resync is how often every node is processed, changed or not.
	resync = 5 * time.Minute
	// maxRetries limits how often a node is tried before the next resync.
	maxRetries = 8
)

// forEachNode calls do for each node, one after another, and again for nodes that change
// in a way that concerns it, until the context ends. A value from again makes it
// process all nodes; again may be nil.
func forEachNode(ctx context.Context, nodes corev1client.NodeInterface, log *slog.Logger, concerns func(before, now *corev1.Node) bool, again <-chan struct{}, do func(context.Context, *corev1.Node) error) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	informer := nodeInformer(nodes, resync)
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { queue.Add(o.(*corev1.Node).Name) },
		UpdateFunc: func(before, now any) {
			if a, b := before.(*corev1.Node), now.(*corev1.Node); concerns(a, b) {
				queue.Add(b.Name)
			}
		},
	}); err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	running.Go(func() {
		processQueue(ctx, queue, log, func(name string) error {
			o, found, err := informer.GetStore().GetByKey(name)
			if err != nil || !found {
				return err
			}
			node, ok := o.(*corev1.Node)
			if !ok {
				return fmt.Errorf("the informer of nodes holds a %T", o)
			}
			return do(ctx, node)
		})
	})
	for {
		select {
		case <-again:
			for _, name := range informer.GetStore().ListKeys() {
				queue.Add(name)
			}
		case <-ctx.Done():
			queue.ShutDown()
			running.Wait()
			return ctx.Err()
		}
	}
}

// nodesByName lists the nodes, by name.
func nodesByName(ctx context.Context, nodes corev1client.NodeInterface) (map[string]*corev1.Node, error) {
	list, err := nodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	out := map[string]*corev1.Node{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out, nil
}

// nodeInformer returns an informer for nodes.
func nodeInformer(nodes corev1client.NodeInterface, resync time.Duration) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return nodes.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return nodes.Watch(ctx, o) },
	}, &corev1.Node{}, resync, cache.Indexers{})
}

// processQueue processes the nodes in the queue until it is shut down.
func processQueue(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string], log *slog.Logger, do func(name string) error) {
	for {
		name, ended := queue.Get()
		if ended {
			return
		}
		err := do(name)
		switch {
		case err == nil:
			queue.Forget(name)
		case ctx.Err() != nil:
		case queue.NumRequeues(name) < maxRetries:
			log.Warn("cannot update a node; trying again", "node", name, "error", err)
			queue.AddRateLimited(name)
		default:
			log.Error("cannot update a node", "node", name, "error", err)
			queue.Forget(name)
		}
		queue.Done(name)
	}
}

// nodePatch is a merge patch of a node; fields that are left out stay unchanged.
type nodePatch struct {
	Metadata nodeMetadata   `json:"metadata"`
	Spec     map[string]any `json:"spec,omitempty"`
}

type nodeMetadata struct {
	UID types.UID `json:"uid"`
	// ResourceVersion rejects the patch if the node has changed since; empty means that it does not matter.
	ResourceVersion string             `json:"resourceVersion,omitempty"`
	Labels          map[string]*string `json:"labels,omitempty"` // nil removes a label
	Annotations     map[string]string  `json:"annotations,omitempty"`
}

// change patches a node. It reports whether the node existed: it may be gone, or
// another node may have its name by now.
func change(ctx context.Context, nodes corev1client.NodeInterface, node *corev1.Node, p nodePatch) (there bool, err error) {
	p.Metadata.UID = node.UID
	patch, err := json.Marshal(p)
	if err != nil {
		return false, err
	}
	_, err = nodes.Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kops-controller"})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return false, nil
	}
	return err == nil, err
}
