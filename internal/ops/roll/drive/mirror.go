package drive

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// mirror keeps a copy of the objects of one resource, with a list and a watch. Unlike an informer,
// it knows whether it is up to date.
type mirror[T any] struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, []T, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// keep selects the objects to keep; nil keeps all.
	keep func(*T) bool
	// changed is called after each change.
	changed func(before, after *T)

	mu    sync.Mutex
	all   map[string]*T // by namespace/name
	fresh bool
}

const (
	// watchTime is how long one watch lasts, in seconds.
	watchTime = int64(600)
	// relist is the pause before listing everything again after a failed watch.
	relist = time.Second
)

// run keeps the copy until ctx ends.
func (m *mirror[T]) run(ctx context.Context, sleep func(context.Context, time.Duration) error) {
	for {
		version, err := m.fill(ctx)
		for err == nil {
			version, err = m.follow(ctx, version)
		}
		m.stale()
		if sleep(ctx, relist) != nil {
			return
		}
	}
}

// fill lists everything, and returns the list's version.
func (m *mirror[T]) fill(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	all := map[string]*T{}
	for o := (metav1.ListOptions{Limit: pageSize}); ; {
		list, items, err := m.list(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range items {
			if m.keep == nil || m.keep(&items[i]) {
				all[keyOf(&items[i])] = &items[i]
			}
		}
		of, err := meta.ListAccessor(list)
		if err != nil {
			return "", err
		}
		if o.Continue = of.GetContinue(); o.Continue != "" {
			continue
		}
		m.mu.Lock()
		m.all, m.fresh = all, true
		m.mu.Unlock()
		m.changed(nil, nil)
		return of.GetResourceVersion(), nil
	}
}

// follow watches from a version on until the watch ends, and returns the last one seen.
func (m *mirror[T]) follow(ctx context.Context, version string) (string, error) {
	seconds := watchTime
	w, err := m.watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
	if err != nil {
		return "", err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case e, open := <-w.ResultChan():
			if !open {
				return version, nil
			}
			if version, err = m.take(e); err != nil {
				return "", err
			}
		}
	}
}

// take processes one event.
func (m *mirror[T]) take(e watch.Event) (string, error) {
	if e.Type == watch.Error {
		return "", errExpired
	}
	of, err := meta.Accessor(e.Object)
	if err != nil || e.Type == watch.Bookmark {
		return of.GetResourceVersion(), err
	}
	after, ok := any(e.Object).(*T)
	if !ok {
		return "", errExpired
	}
	key := keyOf(after)
	m.mu.Lock()
	before := m.all[key]
	if e.Type == watch.Deleted || m.keep != nil && !m.keep(after) {
		after = nil
		delete(m.all, key)
	} else {
		m.all[key] = after
	}
	m.mu.Unlock()
	if before != nil || after != nil {
		m.changed(before, after)
	}
	return of.GetResourceVersion(), nil
}

// keyOf returns the key under which an object is kept.
func keyOf[T any](object *T) string {
	of, err := meta.Accessor(object)
	if err != nil {
		return "" // T is not an object: a bug that no test would pass
	}
	return of.GetNamespace() + "/" + of.GetName()
}

func (m *mirror[T]) stale() {
	m.mu.Lock()
	was := m.fresh
	m.fresh = false
	m.mu.Unlock()
	if was {
		m.changed(nil, nil)
	}
}

// objects returns all objects, and whether the copy is up to date. They must not be changed.
func (m *mirror[T]) objects() ([]T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]T, 0, len(m.all))
	for _, o := range m.all {
		out = append(out, *o)
	}
	return out, m.fresh
}
