package routes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
)

// repair is how often the routes are compared even if no node has changed.
const repair = 30 * time.Second

// Agent maintains the pod network of one machine.
type Agent struct {
	Nodes corev1client.NodeInterface
	// Node is the name of this machine's node.
	Node string
	// CNIFolder is the folder of the container runtime's CNI configuration.
	CNIFolder string
	Network   Network
	Kernel    Kernel
	Log       *slog.Logger
}

// Run follows the cluster's nodes until the context ends.
func (a *Agent) Run(ctx context.Context) error {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return a.Nodes.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return a.Nodes.Watch(ctx, o) },
	}, &corev1.Node{}, 0, cache.Indexers{})
	changed := make(chan struct{}, 1)
	tell := func(any) {
		select {
		case changed <- struct{}{}:
		default: // a notification is already pending
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell, DeleteFunc: tell, UpdateFunc: func(_, now any) { tell(now) },
	}); err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return ctx.Err()
	}
	tick := time.NewTicker(repair)
	defer tick.Stop()
	for {
		var nodes []*corev1.Node
		for _, o := range informer.GetStore().List() {
			if n, ok := o.(*corev1.Node); ok {
				nodes = append(nodes, n)
			}
		}
		if err := a.Sync(nodes); err != nil {
			a.Log.Error("cannot update the pod network; trying again", "error", err)
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Sync makes the machine's CNI configuration and routes match the nodes. Routes
// come first, because the configuration makes the node ready for pods. A failure
// does not keep the rest from being done.
func (a *Agent) Sync(nodes []*corev1.Node) error {
	errs := []error{a.syncRoutes(append(a.Network.Desired(nodes, a.Node), a.Network.Bounds()...))}
	i := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.Name == a.Node })
	if i < 0 || len(Ranges(nodes[i])) == 0 {
		return errors.Join(errs...) // the node is new; it will be updated with its range
	}
	text, err := Conflist(Ranges(nodes[i]))
	if err == nil {
		var changed bool
		if changed, err = writeIfChanged(filepath.Join(a.CNIFolder, ConflistName), text); changed && err == nil {
			a.Log.Info("wrote the CNI configuration", "ranges", Ranges(nodes[i]))
		}
	}
	return errors.Join(append(errs, err)...)
}

func (a *Agent) syncRoutes(want []Route) error {
	have, err := a.Kernel.Routes()
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range have {
		if slices.ContainsFunc(want, func(w Route) bool { return w.Pods == r.Pods }) { // it is changed in place, not removed
			continue
		}
		errs = append(errs, a.Kernel.Remove(r))
		a.Log.Info("removed a route", "pods", r.Pods, "via", r.Via)
	}
	for _, r := range want {
		if slices.Contains(have, r) {
			continue
		}
		errs = append(errs, a.Kernel.Set(r))
		a.Log.Info("set a route", "pods", r.Pods, "via", r.Via)
	}
	return errors.Join(errs...)
}
