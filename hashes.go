package kops

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/assets"
	"kops.local/kops/internal/facts"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/store"
)

// hashTime bounds how long the publishers of files are waited for.
const hashTime = 3 * time.Second

// lookUpHashes adds to the facts the digests of files that machines fetch, as
// their publishers state them beside the files. One that cannot be had stays
// unknown, about which the model warns. Digests are kept in the cache folder.
func (c *Client) lookUpHashes(ctx context.Context, in *model.Input) error {
	urls, err := model.Unhashed(*in)
	if err != nil || len(urls) == 0 || c.cfg.Offline {
		return err
	}
	found := facts.Facts{FileHashes: map[string]string{}}
	if in.Facts != nil {
		found = *in.Facts
		found.FileHashes = map[string]string{}
		for u, h := range in.Facts.FileHashes {
			found.FileHashes[u] = h
		}
	}
	ctx, cancel := context.WithTimeout(ctx, hashTime)
	defer cancel()
	cache := c.fileCache("hashes")
	var mu sync.Mutex
	var g errgroup.Group
	for _, u := range urls {
		g.Go(func() error {
			h, err := c.hash(ctx, cache, u)
			if err != nil {
				c.cfg.Log.Debug("the digest of a file is not known", "url", u, "error", err)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			found.FileHashes[u] = h
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	in.Facts = &found
	return nil
}

// hash returns the SHA-256 of the file at a URL, from the cache or from beside the file.
func (c *Client) hash(ctx context.Context, cache store.Store, url string) (string, error) {
	key := store.Digest([]byte(url))
	if cache != nil {
		if data, _, err := cache.Get(ctx, key); err == nil {
			return string(data), nil
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+".sha256", nil)
	if err != nil {
		return "", err
	}
	resp, err := c.cfg.HTTP.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s.sha256: %s", url, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return "", err
	}
	sum, err := assets.ParseSHA256(text)
	if err != nil {
		return "", fmt.Errorf("%s.sha256: %w", url, err)
	}
	if cache != nil {
		if _, err := cache.Put(ctx, key, []byte(sum), store.PutOptions{}); err != nil {
			c.cfg.Log.Debug("a digest could not be cached", "error", err)
		}
	}
	return sum, nil
}

// fileCache is a part of the cache folder, or nil when there is none.
func (c *Client) fileCache(name string) store.Store {
	if c.cfg.Cache == "" {
		return nil
	}
	return store.NewFolder(c.cacheFolder(name))
}
