package pipeline

import (
	"context"
	"encoding/json"
	"time"

	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/store"
)

// memoTime is how long an observation may be remembered.
const memoTime = 24 * time.Hour

// observations keeps small observations of one cluster in the cache folder. Errors of the cache
// only cost requests, and are not reported.
type observations struct {
	store store.Store
	now   func() time.Time
}

// observations returns a cluster's remembered observations; with refresh they are empty at first.
func (w *World) observations(cluster string, refresh bool) past.Memo {
	s := w.cache("memo")
	if s == nil {
		return nil
	}
	m := &observations{store.Sub(s, store.Digest([]byte(w.Store.URL()+"/"+cluster))), w.Now}
	if refresh {
		m.clear()
	}
	return m
}

type remembered struct {
	Time time.Time `json:"time"`
	Data []byte    `json:"data"`
}

func (m *observations) Get(key string) ([]byte, bool) {
	data, _, err := m.store.Get(context.Background(), store.Digest([]byte(key)))
	if err != nil {
		return nil, false
	}
	var r remembered
	if json.Unmarshal(data, &r) != nil || m.now().Sub(r.Time) > memoTime {
		return nil, false
	}
	return r.Data, true
}

func (m *observations) Put(key string, data []byte) {
	if data == nil {
		_ = m.store.Delete(context.Background(), store.Digest([]byte(key)), store.DeleteOptions{}) // see observations
		return
	}
	text, err := json.Marshal(remembered{m.now(), data})
	if err != nil {
		return
	}
	_, _ = m.store.Put(context.Background(), store.Digest([]byte(key)), text, store.PutOptions{}) // see observations
}

func (m *observations) clear() {
	var keys []string
	for i, err := range m.store.List(context.Background(), "") {
		if err != nil {
			return
		}
		keys = append(keys, i.Key)
	}
	_ = store.DeleteAll(context.Background(), m.store, keys) // see observations
}
