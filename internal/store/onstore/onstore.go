// Package onstore lets the kinds of package managedfile use a store.
//
// It must not know what the files are.
package onstore

import (
	"context"
	"sync/atomic"

	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/store"
)

// Buckets returns the buckets among the backends of a program.
func Buckets(backends store.Backends) managedfile.Buckets {
	out := managedfile.Buckets{}
	for _, b := range backends {
		if b.Bucket == nil {
			continue
		}
		for _, scheme := range b.Schemes {
			out[scheme] = managedfile.NewBucket(b.Bucket.Kind, b.Bucket.API)
			out[scheme].Kind.Terraform = b.Bucket.Arguments
			if b.Bucket.Readers != "" {
				out[scheme].DeclareReaders(b.Bucket.Readers)
			}
			out[scheme].Provider, out[scheme].Encryption = b.Bucket.Provider, b.Bucket.Encryption
		}
	}
	return out
}

// Area returns the area of s, whose root is the folder prefix of the store that files
// call name. listing returns the complete listing of s, with the keys of s, and may
// be cached: after the first write it is no longer used, and s is listed instead.
func Area(name, prefix string, s store.Store, listing func(context.Context) ([]store.Info, error)) managedfile.Area {
	var written atomic.Bool
	return managedfile.Area{
		Store:  name,
		Prefix: prefix,
		List: func(ctx context.Context) ([]managedfile.Info, error) {
			list := listing
			if written.Load() || list == nil {
				list = func(ctx context.Context) ([]store.Info, error) { return collect(ctx, s) }
			}
			all, err := list(ctx)
			if err != nil {
				return nil, err
			}
			out := make([]managedfile.Info, len(all))
			for i, o := range all {
				out[i] = managedfile.Info{Key: o.Key, Digest: o.Digest}
			}
			return out, nil
		},
		Read: func(ctx context.Context, key string) ([]byte, error) {
			data, _, err := s.Get(ctx, key)
			return data, err
		},
		Write: func(ctx context.Context, key string, data []byte, o managedfile.Options) error {
			written.Store(true)
			_, err := s.Put(ctx, key, data, store.PutOptions{IfAbsent: o.IfAbsent, Private: o.Private, PublicRead: o.PublicRead})
			return err
		},
		Remove: func(ctx context.Context, key string) error {
			written.Store(true)
			return s.Delete(ctx, key, store.DeleteOptions{})
		},
	}
}

func collect(ctx context.Context, s store.Store) ([]store.Info, error) {
	var out []store.Info
	for i, err := range s.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	return out, nil
}
