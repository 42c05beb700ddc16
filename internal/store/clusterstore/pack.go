package clusterstore

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"maps"
	"sync"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// packFormat is the version of the pack's layout; one of another format is not read.
const packFormat = 1

// packLimit is the largest pack, unpacked, that is read, in bytes.
const packLimit = 256 << 20

// document is the text of an object in the store.
type document struct {
	Version store.Version `json:"version"`
	Text    string        `json:"text"`
}

// pack holds the documents of a cluster that everybody reads: config, instance
// groups, additional objects. In the store it saves a request for each of them; on
// the local disk, also the requests for the pack. It is only a cache: a document
// whose version differs from a fresh listing is not used. It never holds keys or secrets.
type pack struct {
	Format    int                 `json:"format"`
	Documents map[string]document `json:"documents"`
	// Remote is the version of the pack in the store that held the same documents when
	// it was last seen, or empty. It is kept on disk only.
	Remote store.Version `json:"remote,omitempty"`
}

// encode compresses the pack.
func (p pack) encode() ([]byte, error) {
	p.Format = packFormat
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if err := json.NewEncoder(w).Encode(p); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// decodePack returns an empty pack for anything that is not one.
func decodePack(data []byte) pack {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return pack{}
	}
	text, err := io.ReadAll(io.LimitReader(r, packLimit)) // to its end, where the checksum is
	if err != nil {
		return pack{}
	}
	var p pack
	if err := json.Unmarshal(text, &p); err != nil || p.Format != packFormat {
		return pack{}
	}
	return p
}

// has says whether the pack holds an object as listed.
func (p pack) has(o store.Info) bool {
	d, ok := p.Documents[o.Key]
	return ok && d.Version == o.Version
}

// missing returns the objects that the pack does not hold as listed.
func (p pack) missing(objects []store.Info) []store.Info {
	var out []store.Info
	for _, o := range objects {
		if !p.has(o) {
			out = append(out, o)
		}
	}
	return out
}

// fetch returns the documents of a cluster as listed: from have, which the local
// cache held; else from remote, the pack in the store, which is read when it is nil
// and more than one document is missing; else one by one. The result holds exactly
// the documents that exist.
func (s *Store) fetch(ctx context.Context, cluster string, objects []store.Info, have pack, remote *pack) (pack, error) {
	missing := have.missing(objects)
	dirty := len(missing) > 0 || len(have.Documents) != len(objects)
	if dirty {
		have.Remote = ""
	}
	if len(missing) > 1 && remote == nil {
		remote = s.packed(ctx, cluster)
	}
	if remote != nil {
		have, missing = have.with(*remote, missing)
		if len(remote.missing(objects)) == 0 && len(remote.Documents) == len(objects) {
			have.Remote = remote.Remote
		}
	}
	got, err := s.read(ctx, cluster, missing)
	if err != nil {
		return pack{}, err
	}
	out := pack{Documents: got, Remote: have.Remote}
	for _, o := range objects {
		if have.has(o) {
			out.Documents[o.Key] = have.Documents[o.Key]
		}
	}
	if dirty {
		s.keep(ctx, cluster, out)
	}
	return out, nil
}

// packed reads the pack in the store. A pack that cannot be read counts as empty, because
// the documents themselves are there.
func (s *Store) packed(ctx context.Context, cluster string) *pack {
	data, v, err := s.own(cluster).Get(ctx, packKey)
	if err != nil {
		return &pack{}
	}
	p := decodePack(data)
	p.Remote = v
	return &p
}

// with takes missing documents from other, and returns what is still missing.
func (p pack) with(other pack, missing []store.Info) (pack, []store.Info) {
	out := pack{Documents: maps.Clone(p.Documents), Remote: p.Remote}
	if out.Documents == nil {
		out.Documents = map[string]document{}
	}
	for _, o := range missing {
		if other.has(o) {
			out.Documents[o.Key] = other.Documents[o.Key]
		}
	}
	return out, out.missing(missing)
}

// read gets documents one by one, except empty ones. A document that was removed since the
// listing is left out.
func (s *Store) read(ctx context.Context, cluster string, objects []store.Info) (map[string]document, error) {
	folder := s.folder(cluster)
	var mu sync.Mutex
	out := map[string]document{}
	err := each(ctx, objects, func(ctx context.Context, _ int, o store.Info) error {
		data, v, err := []byte(nil), o.Version, error(nil)
		if o.Size > 0 {
			data, v, err = folder.Get(ctx, o.Key)
		}
		if fault.Is(err, fault.Gone) {
			return nil
		}
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		out[o.Key] = document{Version: v, Text: string(data)}
		return nil
	})
	return out, err
}

// cached is what the local disk has of a cluster; empty without a cache or with a damaged one.
func (s *Store) cached(ctx context.Context, cluster string) pack {
	if s.cache == nil {
		return pack{}
	}
	data, _, err := s.cache.Get(ctx, cluster)
	if err != nil {
		return pack{}
	}
	return decodePack(data)
}

// keep writes a cluster's documents to the local disk. A cache that cannot be
// written is as good as none.
func (s *Store) keep(ctx context.Context, cluster string, p pack) {
	if s.cache == nil || makePrivate(s.cfg.Cache) != nil {
		return
	}
	if data, err := p.encode(); err == nil {
		_, _ = s.cache.Put(ctx, cluster, data, store.PutOptions{Private: true}) // see above
	}
}

// forget removes a cluster's documents from the local disk.
func (s *Store) forget(ctx context.Context, cluster string) {
	if s.cache != nil {
		_ = s.cache.Delete(ctx, cluster, store.DeleteOptions{}) // what stays is never used: its versions are of the past
	}
}

// publish writes the pack to the store, unless the same pack is already there,
// and to the local disk. The pack is only a cache, so a store that refuses it causes
// no error.
func (s *Store) publish(ctx context.Context, cluster string, p pack) pack {
	if p.Remote == "" {
		remote := pack{Documents: p.Documents}
		if data, err := remote.encode(); err == nil {
			if v, err := s.own(cluster).Put(ctx, packKey, data, store.PutOptions{}); err == nil {
				p.Remote = v
			}
		}
	}
	s.keep(ctx, cluster, p)
	return p
}
