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

// packFormat is the version of the pack's layout; packs of other formats are ignored.
const packFormat = 1

// packLimit is the maximum uncompressed size of a pack, in bytes.
const packLimit = 256 << 20

// document is the text of an object in the store.
type document struct {
	Version store.Version `json:"version"`
	Text    string        `json:"text"`
}

// pack contains the documents of a cluster that every command reads: config, instance
// groups, additional objects. In the store it saves a request for each of them; on the
// local disk, also the requests for the pack. It is only a cache: a document whose version
// differs from a fresh listing is not used, nor one from the store whose text does not have the
// digest that the listing states. It never contains keys or secrets.
type pack struct {
	Format    int                 `json:"format"`
	Documents map[string]document `json:"documents"`
	// Remote is the version of the pack in the store that last had the same documents,
	// or empty. It is only stored on disk.
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

// decodePack returns an empty pack for anything that is not a valid one.
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

// contains reports whether the pack contains an object as listed.
func (p pack) contains(o store.Info) bool {
	d, ok := p.Documents[o.Key]
	return ok && d.Version == o.Version
}

// missing returns the objects that the pack does not contain as listed.
func (p pack) missing(objects []store.Info) []store.Info {
	var out []store.Info
	for _, o := range objects {
		if !p.contains(o) {
			out = append(out, o)
		}
	}
	return out
}

// fetch returns the documents of a cluster as listed: from have, the local cache; otherwise from
// remote, the pack in the store, which is read if it is nil and more than one document is missing;
// otherwise one by one. The result contains exactly the documents that exist.
func (s *Store) fetch(ctx context.Context, cluster string, objects []store.Info, have pack, remote *pack) (pack, error) {
	missing := have.missing(objects)
	dirty := len(missing) > 0 || len(have.Documents) != len(objects)
	if dirty {
		have.Remote = ""
	}
	if len(missing) > 1 && remote == nil {
		remote = s.readPack(ctx, cluster)
	}
	if remote != nil {
		proven := remote.proven(objects)
		have, missing = have.merge(proven, missing)
		if len(proven.missing(objects)) == 0 && len(remote.Documents) == len(objects) {
			have.Remote = remote.Remote
		}
	}
	got, err := s.read(ctx, cluster, missing)
	if err != nil {
		return pack{}, err
	}
	out := pack{Documents: got, Remote: have.Remote}
	for _, o := range objects {
		if have.contains(o) {
			out.Documents[o.Key] = have.Documents[o.Key]
		}
	}
	if dirty {
		s.writeCache(ctx, cluster, out)
	}
	return out, nil
}

// proven returns the pack with only the documents whose text has the digest in the listing: others
// than the writers of the documents may have written the pack.
func (p pack) proven(objects []store.Info) pack {
	out := pack{Documents: map[string]document{}, Remote: p.Remote}
	for _, o := range objects {
		if d, ok := p.Documents[o.Key]; ok && store.Digest([]byte(d.Text)) == o.Digest {
			out.Documents[o.Key] = d
		}
	}
	return out
}

// readPack reads the pack in the store. A pack that cannot be read counts as empty, because
// the documents themselves are there.
func (s *Store) readPack(ctx context.Context, cluster string) *pack {
	data, v, err := s.privateFolder(cluster).Get(ctx, packKey)
	if err != nil {
		return &pack{}
	}
	p := decodePack(data)
	p.Remote = v
	return &p
}

// merge adds missing documents from other, and returns those still missing.
func (p pack) merge(other pack, missing []store.Info) (pack, []store.Info) {
	out := pack{Documents: maps.Clone(p.Documents), Remote: p.Remote}
	if out.Documents == nil {
		out.Documents = map[string]document{}
	}
	for _, o := range missing {
		if other.contains(o) {
			out.Documents[o.Key] = other.Documents[o.Key]
		}
	}
	return out, out.missing(missing)
}

// read reads documents one by one, except empty ones. A document that was removed since the
// listing is left out.
func (s *Store) read(ctx context.Context, cluster string, objects []store.Info) (map[string]document, error) {
	folder := s.folder(cluster)
	var mu sync.Mutex
	out := map[string]document{}
	err := forEach(ctx, objects, func(ctx context.Context, _ int, o store.Info) error {
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

// readCache returns the cached documents of a cluster; empty if there is no cache or it is damaged.
func (s *Store) readCache(ctx context.Context, cluster string) pack {
	if s.cache == nil {
		return pack{}
	}
	data, _, err := s.cache.Get(ctx, cluster)
	if err != nil {
		return pack{}
	}
	return decodePack(data)
}

// writeCache writes a cluster's documents to the local disk. A cache that cannot be written is ignored.
func (s *Store) writeCache(ctx context.Context, cluster string, p pack) {
	if s.cache == nil || makePrivate(s.cfg.Cache) != nil {
		return
	}
	if data, err := p.encode(); err == nil {
		_, _ = s.cache.Put(ctx, cluster, data, store.PutOptions{Private: true}) // see above
	}
}

// deleteCache removes a cluster's documents from the local disk.
func (s *Store) deleteCache(ctx context.Context, cluster string) {
	if s.cache != nil {
		_ = s.cache.Delete(ctx, cluster, store.DeleteOptions{}) // what remains is never used, because its versions are outdated
	}
}

// publish writes the pack to the store, unless the same pack is there already, and to the local
// disk. The pack is only a cache, so it is not an error if the store rejects it.
func (s *Store) publish(ctx context.Context, cluster string, p pack) pack {
	if p.Remote == "" {
		remote := pack{Documents: p.Documents}
		if data, err := remote.encode(); err == nil {
			if v, err := s.privateFolder(cluster).Put(ctx, packKey, data, store.PutOptions{}); err == nil {
				p.Remote = v
			}
		}
	}
	s.writeCache(ctx, cluster, p)
	return p
}
