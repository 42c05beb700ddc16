package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/model/assets"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/web"
)

// The time limit for all publishers of a file, and for one of them, the number of files that are
// looked up concurrently, and the maximum size of a list of digests, in bytes.
const (
	hashTime   = 15 * time.Second
	answerTime = 5 * time.Second
	hashLimit  = 16
	hashList   = 1 << 20
)

// withHashes returns the input with the digests of files that machines fetch, as their publishers
// state them. If a digest was not found, the model gets the reason and rejects the file. Digests
// are kept in the cache folder, the only source offline.
func (w *World) withHashes(ctx context.Context, in model.Input) (model.Input, error) {
	in.Facts = w.withOwnHashes(in.Facts)
	files, err := model.Unhashed(in)
	if err != nil || len(files) == 0 {
		return in, err
	}
	found := facts.Facts{}
	if in.Facts != nil {
		found = *in.Facts
	}
	found.FileHashes = maps.Clone(found.FileHashes)
	if found.FileHashes == nil {
		found.FileHashes = map[string]string{}
	}
	in.Unfound = map[string]string{}
	mirrors := assets.MirrorsOf(in.Cluster.Spec.Assets)
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(hashLimit)
	for _, f := range files {
		g.Go(func() error {
			h, err := w.hash(ctx, f.Public, mirrors)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				in.Unfound[f.Public] = err.Error()
			} else {
				found.FileHashes[f.Public] = h
			}
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return in, err
	}
	in.Facts = &found
	return in, nil
}

// withOwnHashes returns facts with the digests that this program was given. Digests in the user's
// facts take precedence.
func (w *World) withOwnHashes(f *facts.Facts) *facts.Facts {
	if len(w.FileHashes) == 0 {
		return f
	}
	found := facts.Facts{}
	if f != nil {
		found = *f
	}
	all := maps.Clone(w.FileHashes)
	maps.Copy(all, found.FileHashes)
	found.FileHashes = all
	return &found
}

// hash returns the SHA-256 of the file at a public URL: from the cache, or else from the publisher
// or a mirror.
func (w *World) hash(ctx context.Context, public string, mirrors assets.Mirrors) (string, error) {
	if programs.IsOwn(public) && !mirrors.Files() {
		return "", errors.New("the archive of kops' own programs lacks it; build one for every architecture (`make archive`), or set KOPS_ARCH to the only architecture of the machines")
	}
	cache, key := w.cache("hashes"), sha256.Sum256([]byte(public))
	name := hex.EncodeToString(key[:])
	if cache != nil {
		// Only a valid digest is used: nothing else that was written there may decide what machines
		// run.
		if data, _, err := cache.Get(ctx, name); err == nil && download.IsSHA256(string(data)) {
			return string(data), nil
		}
	}
	if w.Offline {
		return "", errors.New("this run is offline")
	}
	limited, cancel := context.WithTimeout(ctx, hashTime)
	defer cancel()
	sum, err := w.stated(limited, public, mirrors)
	if err == nil && cache != nil {
		if _, err := cache.Put(ctx, name, []byte(sum), store.PutOptions{}); err != nil {
			w.Log.Debug("a digest could not be cached", "error", err)
		}
	}
	return sum, err
}

// stated queries each place that may state a digest until one does. Places without TLS do not
// count.
func (w *World) stated(ctx context.Context, public string, mirrors assets.Mirrors) (string, error) {
	why := errors.New("no server publishes it over TLS")
	for i, place := range mirrors.Digests(public) {
		if !strings.HasPrefix(place, "https://") {
			continue
		}
		var text []byte
		err := fault.Retry(ctx, w.Sleep, func() (err error) {
			one, cancel := context.WithTimeout(ctx, answerTime)
			defer cancel()
			text, err = web.Get(one, w.HTTP, place, hashList)
			return err
		})
		var sum string
		if err == nil {
			sum, err = assets.ParseSHA256(text, path.Base(public))
		}
		if err == nil {
			return sum, nil
		}
		w.Log.Debug("no digest is published for a file", "place", place, "error", err)
		if i == 0 || mirrors.Files() { // a mirror's error is more useful to its owner
			why = err
		}
	}
	return "", why
}
