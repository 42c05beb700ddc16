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

// failing lists, and fails at everything else.
type failing struct {
	store.Store
	err error
}

func (f failing) Get(context.Context, string) ([]byte, store.Version, error) { return nil, "", f.err }

func (f failing) Put(context.Context, string, []byte, store.PutOptions) (store.Version, error) {
	return "", f.err
}

// counting counts listings.
type counting struct {
	store.Store
	n *atomic.Int32
}

func (c counting) List(ctx context.Context, prefix string) iter.Seq2[store.Info, error] {
	c.n.Add(1)
	return c.Store.List(ctx, prefix)
}

// unlisted cannot be listed.
type unlisted struct{ store.Store }

func (unlisted) List(context.Context, string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		yield(store.Info{}, fault.New(fault.Denied, "nobody may list"))
	}
}

// missing does not exist.
type missing struct{ store.Store }

func (missing) List(context.Context, string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		yield(store.Info{}, fault.Wrap(fault.Permanent, &store.Missing{Err: errors.New("no such bucket")}, "create it"))
	}
}

// together answers reads below a folder once that many are asked for at the same time.
type together struct {
	store.Store
	folder string
	wait   *sync.WaitGroup
}

func (g together) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	if strings.Contains(key, g.folder) {
		g.wait.Done()
		g.wait.Wait()
	}
	return g.Store.Get(ctx, key)
}

// alsoListing lists more keys than there are.
type alsoListing struct {
	store.Store
	more []string
}

func (a alsoListing) List(ctx context.Context, prefix string) iter.Seq2[store.Info, error] {
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

// cuttable is a store whose writes can be made to fail: before they are done, or after.
type cuttable struct {
	store.Store
	after bool
	cut   atomic.Bool
}

func (c *cuttable) set(cut bool) { c.cut.Store(cut) }

func (c *cuttable) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
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

// lostAnswer is a store that does the first write, or not, and does not answer it.
type lostAnswer struct {
	store.Store
	done bool
	once sync.Once
}

func (l *lostAnswer) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (v store.Version, err error) {
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

// unheard is a store that no write reaches.
type unheard struct{ store.Store }

func (unheard) Put(context.Context, string, []byte, store.PutOptions) (store.Version, error) {
	return "", fault.New(fault.Lost, "the connection broke")
}

// countedPuts counts writes.
type countedPuts struct {
	store.Store
	n atomic.Int32
}

func (c *countedPuts) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
	c.n.Add(1)
	return c.Store.Put(ctx, key, data, o)
}

// failingPuts fails at every write.
type failingPuts struct {
	store.Store
	err error
}

func (f failingPuts) Put(context.Context, string, []byte, store.PutOptions) (store.Version, error) {
	return "", f.err
}

// silent is a store that, while on, does not answer writes. One that is deaf does
// not heed the context either.
type silent struct {
	store.Store
	deaf   bool
	on     atomic.Bool
	answer chan struct{} // closed when the deaf may answer
}

func (s *silent) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
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
