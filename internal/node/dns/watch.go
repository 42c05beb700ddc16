package dns

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/client-go/tools/cache"
)

// Watch watches a cluster through its API server.
type Watch struct {
	nodes, pods, services cache.SharedIndexInformer
	ingresses             cache.SharedIndexInformer // nil: they are not watched
	version               atomic.Uint64
}

// NewWatch watches nodes, and the pods, Services and, if requested, Ingresses of a
// namespace; of all namespaces if it is empty.
func NewWatch(core corev1client.CoreV1Interface, networking networkingv1client.NetworkingV1Interface, namespace string, ingresses bool) (*Watch, error) {
	w := &Watch{
		nodes: informer(core.Nodes().List, core.Nodes().Watch, &corev1.Node{}, ""),
		// Pods with their own addresses, which are most pods, are not watched.
		pods:     informer(core.Pods(namespace).List, core.Pods(namespace).Watch, &corev1.Pod{}, "spec.hostNetwork=true"),
		services: informer(core.Services(namespace).List, core.Services(namespace).Watch, &corev1.Service{}, ""),
	}
	if ingresses {
		w.ingresses = informer(networking.Ingresses(namespace).List, networking.Ingresses(namespace).Watch, &networkingv1.Ingress{}, "")
	}
	w.version.Store(1)
	changed := func() { w.version.Add(1) }
	for _, i := range w.all() {
		err := i.SetTransform(essence)
		if err == nil {
			_, err = i.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: func(any) { changed() }, DeleteFunc: func(any) { changed() },
				UpdateFunc: func(before, now any) {
					if !equality.Semantic.DeepEqual(before, now) {
						changed()
					}
				},
			})
		}
		if err != nil {
			return nil, fmt.Errorf("watch the cluster: %w", err)
		}
	}
	return w, nil
}

// informer returns an informer for objects of one kind.
func informer[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error), follow func(context.Context, metav1.ListOptions) (watch.Interface, error), of runtime.Object, fields string) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = fields
			return list(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = fields
			return follow(ctx, o)
		},
	}, of, 0, cache.Indexers{})
}

// essence keeps only those fields of an object that names depend on, so that nothing
// else counts as a change or uses memory.
func essence(o any) (any, error) {
	meta := func(m metav1.ObjectMeta) metav1.ObjectMeta {
		out := metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, Annotations: map[string]string{}}
		for _, k := range []string{Internal, External} {
			if v, ok := m.Annotations[k]; ok {
				out.Annotations[k] = v
			}
		}
		return out
	}
	switch o := o.(type) {
	case *corev1.Node:
		m := meta(o.ObjectMeta)
		m.Labels = o.Labels
		return &corev1.Node{ObjectMeta: m, Status: corev1.NodeStatus{Addresses: o.Status.Addresses}}, nil
	case *corev1.Pod:
		return &corev1.Pod{ObjectMeta: meta(o.ObjectMeta), Spec: corev1.PodSpec{NodeName: o.Spec.NodeName, HostNetwork: o.Spec.HostNetwork},
			Status: corev1.PodStatus{Phase: o.Status.Phase, PodIP: o.Status.PodIP, PodIPs: o.Status.PodIPs}}, nil
	case *corev1.Service:
		return &corev1.Service{ObjectMeta: meta(o.ObjectMeta), Spec: corev1.ServiceSpec{Type: o.Spec.Type}, Status: o.Status}, nil
	case *networkingv1.Ingress:
		return &networkingv1.Ingress{ObjectMeta: meta(o.ObjectMeta), Spec: networkingv1.IngressSpec{Rules: o.Spec.Rules}, Status: o.Status}, nil
	}
	return o, nil
}

func (w *Watch) all() []cache.SharedIndexInformer {
	out := []cache.SharedIndexInformer{w.nodes, w.pods, w.services}
	if w.ingresses != nil {
		out = append(out, w.ingresses)
	}
	return out
}

// Run watches until the context ends. It retries lists that fail.
func (w *Watch) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, i := range w.all() {
		running.Go(func() { i.RunWithContext(ctx) })
	}
	running.Wait()
	return ctx.Err()
}

// Snapshot returns the cluster's objects. The version is read first: a change made
// meanwhile is seen in the next round.
func (w *Watch) Snapshot() (Snapshot, uint64, bool) {
	version := w.version.Load()
	for _, i := range w.all() {
		if !i.HasSynced() {
			return Snapshot{}, 0, false
		}
	}
	seen := Snapshot{Nodes: listObjects[*corev1.Node](w.nodes), Pods: listObjects[*corev1.Pod](w.pods), Services: listObjects[*corev1.Service](w.services)}
	if w.ingresses != nil {
		seen.Ingresses = listObjects[*networkingv1.Ingress](w.ingresses)
	}
	return seen, version, true
}

func listObjects[T any](i cache.SharedIndexInformer) []T {
	var out []T
	for _, o := range i.GetStore().List() {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	return out
}
