package gs

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// upload is the metadata sent with an object. It forbids caching of public objects:
// by default they are cached for an hour (Cloud Storage, "Cache-Control").
type upload struct {
	Name         string `json:"name"`
	CRC32C       string `json:"crc32c"`
	MD5          string `json:"md5Hash"`
	CacheControl string `json:"cacheControl"`
}

// boundary separates the parts of an upload. It is only recognized at the start of a
// line, and the checksums would reveal an object that was cut there.
const boundary = "kops-object-5d1c0a8e3f7b4962"

// Put implements store.Store.
func (b *bucket) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
	if err := store.CheckKey(key); err != nil {
		return "", err
	}
	q := url.Values{"uploadType": {"multipart"}, "fields": {"generation,crc32c"}}
	conditional := o.IfAbsent || o.IfVersion != ""
	switch {
	case o.IfAbsent:
		q.Set("ifGenerationMatch", "0")
	case conditional:
		q.Set("ifGenerationMatch", generation(o.IfVersion))
	}
	if o.PublicRead {
		q.Set("predefinedAcl", "publicRead")
	}
	md := md5.Sum(data)
	about, err := json.Marshal(upload{b.prefix + key, checksum(data), base64.StdEncoding.EncodeToString(md[:]), "no-store"})
	if err != nil {
		return "", err
	}
	a, err := b.do(ctx, http.MethodPost, "/upload"+b.objects()+"?"+q.Encode(), multipartBody(about, data), "multipart/related; boundary="+boundary)
	switch {
	case err == nil && a.OK():
		v, err := b.writtenVersion(key, a.Body, data)
		if err == nil && o.PublicRead {
			err = b.checkPublic(ctx, key)
		}
		return v, err
	case err == nil && a.Status == http.StatusPreconditionFailed && conditional:
		return store.ResolveConflict(ctx, b, key, data, o, a.Tries)
	}
	err = b.wrapError(ctx, "write", "storage.objects.create", key, a, err)
	if o.PublicRead && (a.Status == http.StatusBadRequest || a.Status == http.StatusPreconditionFailed) {
		return "", fault.Wrap(fault.Permanent, err, b.publishRemedy())
	}
	return "", err
}

// multipartBody returns the body of an upload, the metadata and the object, and the length of
// both.
func multipartBody(about, data []byte) func() (io.Reader, int64) {
	head := "--" + boundary + "\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n" + string(about) +
		"\r\n--" + boundary + "\r\nContent-Type: application/octet-stream\r\n\r\n"
	tail := "\r\n--" + boundary + "--\r\n"
	return func() (io.Reader, int64) {
		return io.MultiReader(strings.NewReader(head), bytes.NewReader(data), strings.NewReader(tail)), int64(len(head) + len(data) + len(tail))
	}
}

// writtenVersion returns the version of a written object, and an error if the object arrived damaged.
func (b *bucket) writtenVersion(key string, answer, data []byte) (store.Version, error) {
	var o object
	if err := json.Unmarshal(answer, &o); err != nil || o.Generation == "" {
		return "", fault.Wrap(fault.Permanent, fmt.Errorf("write %s: the answer has no generation", store.URL(b, key)),
			"the server, or a proxy in front of it, does not support conditional writes; use another one")
	}
	if o.CRC32C != "" && o.CRC32C != checksum(data) {
		return "", fault.Wrap(fault.Lost, fmt.Errorf("write %s: the object arrived damaged", store.URL(b, key)), "check the network, and any proxy")
	}
	return store.Version(o.Generation), nil
}

// generation converts a version to a condition. Versions of other stores become a generation
// that no object has: a generation is a time in microseconds.
func generation(v store.Version) string {
	if v == "" || v == "0" || strings.Trim(string(v), "0123456789") != "" {
		return "1"
	}
	return string(v)
}

// Delete implements store.Store.
func (b *bucket) Delete(ctx context.Context, key string, o store.DeleteOptions) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	q := url.Values{}
	if o.IfVersion != "" {
		q.Set("ifGenerationMatch", generation(o.IfVersion))
	}
	return b.remove(ctx, key, q)
}

// remove removes an object, with conditions, or one version of it.
func (b *bucket) remove(ctx context.Context, key string, q url.Values) error {
	a, err := b.do(ctx, http.MethodDelete, b.object(b.prefix+key)+"?"+q.Encode(), nil, "")
	switch {
	case err == nil && (a.OK() || a.Status == http.StatusNotFound && !b.isBucketMissing(ctx)):
		return nil
	case err == nil && a.Status == http.StatusPreconditionFailed:
		if _, _, err := b.Get(ctx, key); fault.Is(err, fault.Gone) {
			return nil // a server may check the condition first
		}
		return store.ChangedError(store.URL(b, key))
	}
	return b.wrapError(ctx, "delete", "storage.objects.delete", key, a, err)
}

// deleteAll removes keys, several at a time.
func (b *bucket) deleteAll(ctx context.Context, keys []string) error {
	return store.Each(ctx, keys, func(ctx context.Context, key string) error { return b.Delete(ctx, key, store.DeleteOptions{}) })
}

// purge removes every version of keys. Objects that the bucket's soft-delete policy
// retains for some days cannot be removed earlier.
func (b *bucket) purge(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	for _, k := range keys {
		if err := store.CheckKey(k); err != nil {
			return err
		}
	}
	var all []object
	prefix, last := store.CommonPrefix(slices.Min(keys), slices.Max(keys)), b.prefix+slices.Max(keys)
	for page := (&listing{Next: "-"}); page.Next != ""; {
		var err error
		if page, err = b.list(ctx, prefix, page.Next, true); err != nil {
			return err
		}
		for _, o := range page.Items {
			if slices.Contains(keys, strings.TrimPrefix(o.Name, b.prefix)) {
				all = append(all, o)
			}
		}
		if n := len(page.Items); n > 0 && page.Items[n-1].Name > last {
			break
		}
	}
	return store.Each(ctx, all, func(ctx context.Context, o object) error {
		return b.remove(ctx, strings.TrimPrefix(o.Name, b.prefix), url.Values{"generation": {o.Generation}})
	})
}
