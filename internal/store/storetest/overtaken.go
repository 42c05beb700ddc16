package storetest

import (
	"context"
	"sync"

	"kops.local/kops/internal/store"
)

// RacingStore is a store that calls Before before the first write.
type RacingStore struct {
	store.Store
	Before func()

	once sync.Once
}

// Put writes an object, after Before was called.
func (o *RacingStore) Put(ctx context.Context, key string, data []byte, opts store.PutOptions) (store.Version, error) {
	o.once.Do(o.Before)
	return o.Store.Put(ctx, key, data, opts)
}
