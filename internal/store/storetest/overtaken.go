package storetest

import (
	"context"
	"sync"

	"kops.local/kops/internal/store"
)

// Overtaken is a store in which By happens before the first write.
type Overtaken struct {
	store.Store
	By func()

	once sync.Once
}

// Put writes an object, By having happened.
func (o *Overtaken) Put(ctx context.Context, key string, data []byte, opts store.PutOptions) (store.Version, error) {
	o.once.Do(o.By)
	return o.Store.Put(ctx, key, data, opts)
}
