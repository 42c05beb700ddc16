package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

const (
	// guardTries is how often a write without conditions is tried while others write the same object.
	guardTries = 3
	// undoTime is the time limit for finding out that the cluster was deleted during a write, and for
	// undoing the write.
	undoTime = 10 * time.Second
)

// Guard returns the store for managers to write to: writes to it never restore objects that were
// deleted with the cluster.
//
// An existing object is replaced only in the version that was read just before. A missing object
// is created only while the store contains the cluster, and is removed again if the cluster was
// deleted during the write. So a deletion that lists the store again, after it has removed the
// cluster, sees everything that remains.
func Guard(s store.Store) store.Store { return guarded{s} }

type guarded struct{ store.Store }

// Put implements store.Store.
func (g guarded) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (v store.Version, err error) {
	switch {
	case o.IfVersion != "":
		return g.Store.Put(ctx, key, data, o)
	case o.IfAbsent:
		return g.create(ctx, key, data, o)
	}
	for range guardTries {
		if v, err = g.replace(ctx, key, data, o); !fault.Is(err, fault.Conflict) {
			break
		}
	}
	return v, err
}

// replace replaces an object if it exists.
func (g guarded) replace(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
	_, now, err := g.Get(ctx, key)
	switch {
	case err == nil:
		o.IfVersion = now
		return g.Store.Put(ctx, key, data, o)
	case fault.Is(err, fault.Gone):
		o.IfAbsent = true
		return g.create(ctx, key, data, o)
	}
	return "", err
}

// create creates an object. The second check of the cluster does not stop when ctx ends, because a
// manager that is stopped in the middle of a write is often one whose cluster is being deleted.
func (g guarded) create(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
	if err := g.checkExists(ctx, key); err != nil {
		return "", err
	}
	v, err := g.Store.Put(ctx, key, data, o)
	if fault.Is(err, fault.Conflict) {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	if deleted := g.checkExists(ctx, key); fault.Is(deleted, fault.Gone) {
		return "", errors.Join(deleted, err, g.Delete(ctx, key, store.DeleteOptions{}))
	}
	return v, err
}

// checkExists returns an error of class fault.Gone if the store does not contain the cluster to
// which an object belongs.
func (g guarded) checkExists(ctx context.Context, key string) error {
	for _, k := range anchors(key) {
		if _, _, err := g.Get(ctx, k); !fault.Is(err, fault.Gone) {
			return err
		}
	}
	return fault.Wrap(fault.Gone, fmt.Errorf("%s is not written: the store does not hold %s, so the cluster was deleted", store.URL(g, key), specKey),
		"if the cluster still exists, write its objects again with kops update cluster")
}

// anchors returns the objects at least one of which must exist for the object at a key to be created.
// Managers never create the spec, and create the record only if there is a spec, so no anchor is
// recreated after a deletion.
func anchors(key string) []string {
	switch key {
	case specKey:
		return nil
	case recordKey:
		return []string{specKey}
	}
	return []string{specKey, recordKey}
}
