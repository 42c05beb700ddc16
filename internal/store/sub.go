package store

import (
	"context"
	"iter"
	"strings"
)

// Sub returns the part of s below a folder, as a store of its own.
func Sub(s Store, folder string) Store {
	folder = strings.Trim(folder, "/")
	if folder == "" {
		return s
	}
	return &sub{parent: s, folder: folder + "/"}
}

// sub is the part of a store whose keys start with folder; its keys do not include folder.
type sub struct {
	parent Store
	folder string // ends in a slash
}

func (s *sub) Get(ctx context.Context, key string) ([]byte, Version, error) {
	if err := CheckKey(key); err != nil {
		return nil, "", err
	}
	return s.parent.Get(ctx, s.folder+key)
}

func (s *sub) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for info, err := range s.parent.List(ctx, s.folder+prefix) {
			info.Key = strings.TrimPrefix(info.Key, s.folder)
			if !yield(info, err) {
				return
			}
		}
	}
}

func (s *sub) Put(ctx context.Context, key string, data []byte, o PutOptions) (Version, error) {
	if err := CheckKey(key); err != nil {
		return "", err
	}
	return s.parent.Put(ctx, s.folder+key, data, o)
}

func (s *sub) Delete(ctx context.Context, key string, o DeleteOptions) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	return s.parent.Delete(ctx, s.folder+key, o)
}

func (s *sub) About() About {
	a := s.parent.About()
	a.URL = join(a.URL, strings.TrimSuffix(s.folder, "/"))
	a.DeleteAll, a.Purge = s.inFolder(a.DeleteAll), s.inFolder(a.Purge)
	return a
}

// inFolder wraps a function that takes keys of the whole store so that it takes keys of the
// folder; nil stays nil.
func (s *sub) inFolder(do func(ctx context.Context, keys []string) error) func(ctx context.Context, keys []string) error {
	if do == nil {
		return nil
	}
	return func(ctx context.Context, keys []string) error {
		full := make([]string, len(keys))
		for i, k := range keys {
			full[i] = s.folder + k
		}
		return do(ctx, full)
	}
}
