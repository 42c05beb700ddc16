// Package azureblob stores objects in a container of Azure Blob Storage. Its conditional
// writes use HTTP's conditions: an ETag, or that there is none.
//
// It speaks the REST API itself: Azure's client for it, azblob, adds 4.3 MB to a
// program, and with its tables library one more dependency to maintain.
//
// It must not know what the objects mean, nor read the environment: credentials and
// endpoint are handed in.
package azureblob

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/web"
)

// Config says who asks, and where.
type Config struct {
	// HTTP sends the requests; nil: a client of its own for each store.
	HTTP *http.Client
	// Endpoint is the URL of the account's blobs; empty: Azure's for the account, in the cloud of Suffix.
	Endpoint string
	// Suffix ends the names of accounts' hosts; empty: core.windows.net, of the public cloud.
	Suffix string
	// Key is the account's shared key, in base64, and Token a token for all that one may
	// do. The key is used where there is one; nil and "": nobody asks.
	Key   string
	Token func(context.Context) (string, error)
	// Account is the account that a variable names, and no URL of ours means.
	Account string
}

// Backend opens azureblob://account/container/folder.
func Backend(c Config) store.Backend {
	return store.Backend{Schemes: []string{"azureblob"}, Open: c.open}
}

func (c Config) open(_ context.Context, _, rest string) (store.Store, error) {
	account, place, _ := strings.Cut(rest, "/")
	name, prefix, _ := strings.Cut(place, "/")
	switch {
	case c.Account != "":
		return nil, fault.Wrap(fault.Permanent, errors.New("AZURE_STORAGE_ACCOUNT is set, but the URL of the store also names an account"),
			"unset AZURE_STORAGE_ACCOUNT, and write azureblob://account/container")
	case account == "" || name == "":
		return nil, fault.Wrap(fault.Permanent, errors.New("the name of the account, or of the container, is missing"), "write azureblob://account/container")
	}
	if c.HTTP == nil {
		c.HTTP = web.NewClient()
	}
	s := &container{c: c, account: account, name: name, url: "azureblob://" + account + "/" + name}
	s.endpoint = strings.TrimSuffix(cmp.Or(c.Endpoint, "https://"+account+".blob."+cmp.Or(c.Suffix, "core.windows.net")), "/") + "/" + url.PathEscape(name)
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		s.url += "/" + prefix
		s.prefix = prefix + "/"
	}
	return s, nil
}

// container is the Store below one prefix of one container.
type container struct {
	c             Config
	url           string // what the user wrote, without a final slash
	account, name string
	endpoint      string // the URL of the container
	prefix        string // empty, or ends in a slash
}

// About implements store.Store.
func (s *container) About() store.About {
	return store.About{URL: s.url, DeleteAll: s.deleteAll, Purge: s.purge, Public: s.public, Web: s.web}
}

func (s *container) web() string { return strings.TrimSuffix(s.endpoint+"/"+s.prefix, "/") }

// checkKey is store.CheckKey, and refuses what the service would take for another key.
func checkKey(key string) error {
	if strings.Contains(key, `\`) {
		return fault.New(fault.Permanent, "bad key %q in a store: Azure treats a backslash as a slash", key)
	}
	return store.CheckKey(key)
}

// Get implements store.Store.
func (s *container) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	if err := checkKey(key); err != nil {
		return nil, "", err
	}
	a, err := s.ask(ctx, request{method: http.MethodGet, blob: s.prefix + key})
	if err != nil || !a.OK() {
		return nil, "", s.failed(ctx, "read", key, a, err)
	}
	v, err := s.version("read", key, a)
	return a.Body, v, err
}

// version is the ETag in an answer, without its quotes. Without one nothing guards the next write.
func (s *container) version(doing, key string, a web.Answer) (store.Version, error) {
	v := strings.Trim(a.Header.Get("ETag"), `"`)
	if v == "" {
		return "", fault.Wrap(fault.Permanent, fmt.Errorf("%s %s: the answer has no ETag", doing, store.URL(s, key)),
			"the server, or a proxy in front of it, does not support conditional writes; use another one")
	}
	return store.Version(v), nil
}

// listing is a page of blobs (Blob service REST API, "List Blobs").
type listing struct {
	Blobs []blob `xml:"Blobs>Blob"`
	Next  string `xml:"NextMarker"`
}

type blob struct {
	Name       string
	Version    string `xml:"VersionId"` // empty where the account keeps none
	Properties struct {
		ETag string `xml:"Etag"`
		Size int64  `xml:"Content-Length"`
		MD5  string `xml:"Content-MD5"`
	}
}

// List implements store.Store. The service has an order of its own, so that all is
// listed before the first is yielded: one request for every five thousand blobs.
func (s *container) List(ctx context.Context, prefix string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		all, err := s.list(ctx, prefix, url.Values{})
		if err != nil {
			yield(store.Info{}, err)
			return
		}
		var out []store.Info
		for _, b := range all.Blobs {
			if strings.HasSuffix(b.Name, "/") {
				continue // the mark of a folder, not an object of ours
			}
			i := store.Info{Key: strings.TrimPrefix(b.Name, s.prefix), Size: b.Properties.Size, Version: store.Version(strings.Trim(b.Properties.ETag, `"`))}
			if sum, err := base64.StdEncoding.DecodeString(b.Properties.MD5); err == nil {
				i.Digest = hex.EncodeToString(sum)
			}
			out = append(out, i)
		}
		slices.SortFunc(out, func(a, b store.Info) int { return cmp.Compare(a.Key, b.Key) })
		for _, i := range out {
			if !yield(i, nil) {
				return
			}
		}
	}
}

// list is all that has a prefix; more says what else than blobs is asked for.
func (s *container) list(ctx context.Context, prefix string, more url.Values) (*listing, error) {
	more.Set("restype", "container")
	more.Set("comp", "list")
	more.Set("prefix", s.prefix+prefix)
	var all listing
	for {
		a, err := s.ask(ctx, request{method: http.MethodGet, query: more})
		if err != nil || !a.OK() {
			return nil, s.failed(ctx, "list", prefix, a, err)
		}
		var page listing
		if err := xml.Unmarshal(a.Body, &page); err != nil {
			return nil, fault.Wrap(fault.Permanent, fmt.Errorf("list %s: the answer does not come from the storage service: %w", store.URL(s, prefix), err), "check any proxy")
		}
		all.Blobs = append(all.Blobs, page.Blobs...)
		if page.Next == "" {
			return &all, nil
		}
		more.Set("marker", page.Next)
	}
}

// Put implements store.Store.
func (s *container) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
	if err := checkKey(key); err != nil {
		return "", err
	}
	if o.PublicRead {
		if public, err := s.public(ctx); err != nil || !public {
			return "", cmp.Or(err, fault.Wrap(fault.Permanent, fmt.Errorf("write %s: it must be public, but the container is not", store.URL(s, key)),
				"make the container's blobs public: az storage container set-permission --account-name "+s.account+" --name "+s.name+" --public-access blob"))
		}
	}
	r := request{method: http.MethodPut, blob: s.prefix + key, body: data, header: http.Header{"X-Ms-Blob-Type": {"BlockBlob"}, "Content-Md5": {md5Of(data)}}}
	if o.IfAbsent {
		r.header.Set("If-None-Match", "*")
	}
	if o.IfVersion != "" {
		r.header.Set("If-Match", etag(o.IfVersion))
	}
	a, err := s.ask(ctx, r)
	switch conditional := o.IfAbsent || o.IfVersion != ""; {
	case err == nil && a.OK():
		return s.version("write", key, a)
	case err == nil && conditional && refused(a):
		return store.Refused(ctx, s, key, data, o, a.Tries)
	}
	return "", s.failed(ctx, "write", key, a, err)
}

// refused says that a write was not done because its condition does not hold.
func refused(a web.Answer) bool {
	c := code(a)
	return c == "ConditionNotMet" || c == "BlobAlreadyExists" || c == "TargetConditionNotMet" || a.Status == http.StatusPreconditionFailed && c != "LeaseIdMissing"
}

// etag is version's inverse.
func etag(v store.Version) string { return `"` + string(v) + `"` }

// Delete implements store.Store.
func (s *container) Delete(ctx context.Context, key string, o store.DeleteOptions) error {
	if err := checkKey(key); err != nil {
		return err
	}
	r := request{method: http.MethodDelete, blob: s.prefix + key, header: http.Header{"X-Ms-Delete-Snapshots": {"include"}}}
	if o.IfVersion != "" {
		r.header.Set("If-Match", etag(o.IfVersion))
	}
	a, err := s.ask(ctx, r)
	switch {
	case err == nil && (a.OK() || code(a) == "BlobNotFound"):
		return nil
	case err == nil && o.IfVersion != "" && refused(a):
		if _, _, err := s.Get(ctx, key); fault.Is(err, fault.Gone) {
			return nil // the service looks at the condition first
		}
		return store.Changed(store.URL(s, key))
	}
	return s.failed(ctx, "delete", key, a, err)
}

// deleteAll removes keys, some at a time.
func (s *container) deleteAll(ctx context.Context, keys []string) error {
	return store.Each(ctx, keys, func(ctx context.Context, key string) error { return s.Delete(ctx, key, store.DeleteOptions{}) })
}

// purge removes keys, and the versions that an account keeps of them. What it keeps of
// removed blobs for some days by its policy of soft deletion, nobody can remove before.
func (s *container) purge(ctx context.Context, keys []string) error {
	if err := s.deleteAll(ctx, keys); err != nil || len(keys) == 0 {
		return err
	}
	all, err := s.list(ctx, store.Common(slices.Min(keys), slices.Max(keys)), url.Values{"include": {"versions"}})
	if err != nil {
		return err
	}
	return store.Each(ctx, all.Blobs, func(ctx context.Context, b blob) error {
		key := strings.TrimPrefix(b.Name, s.prefix)
		if b.Version == "" || !slices.Contains(keys, key) {
			return nil
		}
		a, err := s.ask(ctx, request{method: http.MethodDelete, blob: b.Name, query: url.Values{"versionid": {b.Version}}})
		if err == nil && (a.OK() || a.Status == http.StatusNotFound) {
			return nil
		}
		return s.failed(ctx, "delete a version of", key, a, err)
	})
}
