package store

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"kops.local/kops/internal/engine/fault"
)

// Memory is a store in the memory of the process. Use NewMemory.
type Memory struct {
	url     string
	mu      sync.RWMutex
	objects map[string][]byte
}

// NewMemory returns an empty store whose URL is memory://name.
func NewMemory(name string) *Memory { return newMemory("memory", name) }

func newMemory(scheme, name string) *Memory {
	return &Memory{url: scheme + "://" + name, objects: map[string][]byte{}}
}

// Memories is the backend of memory://name, and of memfs://name, as kOps calls it. One value
// opens one store per name. None of our programs uses it, because the content is lost when
// the process exits.
func Memories() Backend {
	var mu sync.Mutex
	open := map[string]*Memory{}
	return Backend{
		Schemes: []string{"memory", "memfs"},
		Open: func(_ context.Context, scheme, rest string) (Store, error) {
			name, folder, _ := strings.Cut(rest, "/")
			mu.Lock()
			defer mu.Unlock()
			at := scheme + "://" + name
			if open[at] == nil {
				open[at] = newMemory(scheme, name)
			}
			return Sub(open[at], folder), nil
		},
	}
}

// Get implements Store.
func (m *Memory) Get(ctx context.Context, key string) ([]byte, Version, error) {
	if err := checkUsable(ctx, key); err != nil {
		return nil, "", err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	data, ok := m.objects[key]
	if !ok {
		return nil, "", fault.New(fault.Gone, "%s does not exist", join(m.url, key))
	}
	return bytes.Clone(data), Version(Digest(data)), nil
}

// List implements Store.
func (m *Memory) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for _, info := range m.list(prefix) {
			if err := ctx.Err(); err != nil {
				yield(Info{}, fmt.Errorf("list %s: %w", join(m.url, prefix), err))
				return
			}
			if !yield(info, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(Info{}, fmt.Errorf("list %s: %w", join(m.url, prefix), err))
		}
	}
}

// list returns a copy of a listing, so that no lock is held while it is iterated.
func (m *Memory) list(prefix string) []Info {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []Info
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		if strings.HasPrefix(key, prefix) {
			d := Digest(m.objects[key])
			out = append(out, Info{Key: key, Size: int64(len(m.objects[key])), Version: Version(d), Digest: d})
		}
	}
	return out
}

// Put implements Store.
func (m *Memory) Put(ctx context.Context, key string, data []byte, o PutOptions) (Version, error) {
	if err := checkUsable(ctx, key); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := o.Check(join(m.url, key), m.version(key)); err != nil {
		return "", err
	}
	m.objects[key] = bytes.Clone(data)
	return m.version(key), nil
}

// Delete implements Store.
func (m *Memory) Delete(ctx context.Context, key string, o DeleteOptions) error {
	if err := checkUsable(ctx, key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := o.Check(join(m.url, key), m.version(key)); err != nil {
		return err
	}
	delete(m.objects, key)
	return nil
}

// About implements Store.
func (m *Memory) About() About { return About{URL: m.url} }

// version returns the version of a key, or "" if it is absent. The caller holds the lock.
func (m *Memory) version(key string) Version {
	data, ok := m.objects[key]
	if !ok {
		return ""
	}
	return Version(Digest(data))
}

// checkUsable returns an error if an operation on the key must not start.
func checkUsable(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("use %s: %w", key, err)
	}
	return CheckKey(key)
}

// Check compares the conditions of a write with the current version ("" is absent).
func (o PutOptions) Check(url string, now Version) error {
	switch {
	case o.IfAbsent && now != "":
		return ExistsError(url)
	case o.IfVersion != "" && now != o.IfVersion:
		return ChangedError(url)
	}
	return nil
}

// Check compares the condition of a removal with the current version ("" is absent).
func (o DeleteOptions) Check(url string, now Version) error {
	if o.IfVersion != "" && now != "" && now != o.IfVersion {
		return ChangedError(url)
	}
	return nil
}

// ExistsError returns the error for a write with IfAbsent to an existing key.
func ExistsError(url string) error { return fault.New(fault.Conflict, "%s already exists", url) }

// ChangedError returns the error for a write or removal whose IfVersion is outdated.
func ChangedError(url string) error {
	return fault.New(fault.Conflict, "%s was changed by someone since it was read", url)
}
