// Package past keeps small observations between commands, so that what hardly ever changes is not
// queried each time.
//
// It must not know what is observed.
package past

import "encoding/json"

// Memo remembers facts that a platform reports only one object at a time and that
// rarely change. Entries should be forgotten after a day, because others may
// change the objects. Its methods must be safe for concurrent use.
type Memo interface {
	// Get returns what was last stored under the key, unless it was forgotten.
	Get(key string) (data []byte, ok bool)
	// Put stores data under the key; nil removes the entry.
	Put(key string, data []byte)
}

// Remember keeps a value under a key; a nil memo keeps nothing.
func Remember(m Memo, key string, value any) {
	if m == nil {
		return
	}
	data, err := json.Marshal(value)
	if err != nil {
		data = nil // what cannot be stored is queried again
	}
	m.Put(key, data)
}

// Recall returns what is kept under a key.
func Recall[T any](m Memo, key string) (value T, ok bool) {
	if m == nil {
		return value, false
	}
	data, ok := m.Get(key)
	return value, ok && json.Unmarshal(data, &value) == nil
}

// Forget removes what is kept under a key. It must be called both before a write, which may be
// interrupted, and after it, because an observation may run meanwhile.
func Forget(m Memo, key string) {
	if m != nil {
		m.Put(key, nil)
	}
}
