package clusterstore_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"sync/atomic"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// failingStore can be listed, but fails on everything else.
type failingStore struct {
	store.Store
	err error
}

func (f failingStore) Get(context.Context, string) ([]byte, store.Version, error) {
	return nil, "", f.err
}

func (f failingStore) Put(context.Context, string, []byte, store.PutOptions) (store.Version, error) {
	return "", f.err
}

// bucketStore is a store that is in a bucket.
type bucketStore struct{ store.Store }

func (bucketStore) About() store.About { return store.About{URL: "s3://state"} }

// countingStore counts listings.
type countingStore struct {
	store.Store
	n *atomic.Int32
}

func (c countingStore) List(ctx context.Context, prefix string) iter.Seq2[store.Info, error] {
	c.n.Add(1)
	return c.Store.List(ctx, prefix)
}

// unlistableStore fails on listings.
type unlistableStore struct{ store.Store }

func (unlistableStore) List(context.Context, string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		yield(store.Info{}, fault.New(fault.Denied, "nobody may list"))
	}
}

// missingStore is a store that does not exist.
type missingStore struct{ store.Store }

func (missingStore) About() store.About { return store.About{URL: "gone://bucket"} }

func (missingStore) List(context.Context, string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		yield(store.Info{}, fault.Wrap(fault.Permanent, &store.MissingError{Err: errors.New("no such bucket")}, "create it"))
	}
}

// gatheringStore blocks reads below a folder until the expected number are in progress.
type gatheringStore struct {
	store.Store
	folder string
	wait   *sync.WaitGroup
}

func (g gatheringStore) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	if strings.Contains(key, g.folder) {
		g.wait.Done()
		g.wait.Wait()
	}
	return g.Store.Get(ctx, key)
}

// overlistingStore lists additional keys that do not exist.
type overlistingStore struct {
	store.Store
	more []string
}

func (a overlistingStore) List(ctx context.Context, prefix string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		for _, key := range a.more {
			if !yield(store.Info{Key: key}, nil) {
				return
			}
		}
		a.Store.List(ctx, prefix)(yield)
	}
}

var errCut = errors.New("the connection is cut")

// cuttableStore is a store whose writes can be made to fail: before they are done, or after.
type cuttableStore struct {
	store.Store
	after bool
	cut   atomic.Bool
}

func (c *cuttableStore) set(cut bool) { c.cut.Store(cut) }

func (c *cuttableStore) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
	if !c.cut.Load() {
		return c.Store.Put(ctx, key, data, o)
	}
	if c.after {
		if _, err := c.Store.Put(ctx, key, data, o); err != nil {
			return "", err
		}
	}
	return "", errCut
}

// lostAnswerStore is a store that performs or drops the first write, and loses its answer.
type lostAnswerStore struct {
	store.Store
	done bool
	once sync.Once
}

func (l *lostAnswerStore) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (v store.Version, err error) {
	l.once.Do(func() {
		if l.done {
			v, err = l.Store.Put(ctx, key, data, o)
		}
		if err == nil {
			err = fault.New(fault.Lost, "the connection broke")
		}
	})
	if err != nil {
		return "", err
	}
	return l.Store.Put(ctx, key, data, o)
}

// unreachableStore is a store that no write reaches.
type unreachableStore struct{ store.Store }

func (unreachableStore) Put(context.Context, string, []byte, store.PutOptions) (store.Version, error) {
	return "", fault.New(fault.Lost, "the connection broke")
}

// countedPutsStore counts writes.
type countedPutsStore struct {
	store.Store
	n atomic.Int32
}

func (c *countedPutsStore) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
	c.n.Add(1)
	return c.Store.Put(ctx, key, data, o)
}

// failingPutsStore fails on every write.
type failingPutsStore struct {
	store.Store
	err error
}

func (f failingPutsStore) Put(context.Context, string, []byte, store.PutOptions) (store.Version, error) {
	return "", f.err
}

// silentStore is a store that, while on, does not answer writes. If it is deaf it also
// ignores the context.
type silentStore struct {
	store.Store
	deaf   bool
	on     atomic.Bool
	answer chan struct{} // closed when a deaf store may answer
}

func (s *silentStore) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
	if s.on.Load() {
		ended := ctx.Done()
		if s.deaf {
			ended = nil
		}
		select {
		case <-ended:
			return "", ctx.Err()
		case <-s.answer:
		}
	}
	return s.Store.Put(ctx, key, data, o)
}
