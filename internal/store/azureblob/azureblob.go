// Package azureblob stores objects in a container of Azure Blob Storage. Its conditional
// writes use HTTP's conditions on ETags.
//
// It uses the REST API directly: Azure's client for it, azblob, adds 4.3 MB to a program,
// and is, with its tables library, another dependency to maintain.
//
// It must not know what the objects mean, nor read the environment: credentials and
// endpoint are passed in.
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

// Config is the endpoint and the credentials.
type Config struct {
	// HTTP sends the requests; nil: a client of its own for each store.
	HTTP *http.Client
	// Endpoint is the URL of the account's blobs; empty: Azure's for the account, in the cloud given by
	// Suffix.
	Endpoint string
	// Suffix is the suffix of the accounts' host names; empty: core.windows.net, the public
	// cloud's.
	Suffix string
	// Key is the account's shared key, in base64, and Token returns an access token for
	// storage. The key takes precedence; "" and nil: requests are anonymous.
	Key   string
	Token func(context.Context) (string, error)
	// Account is the account in AZURE_STORAGE_ACCOUNT, which must be empty because
	// URLs name theirs.
	Account string
}

// Suffix returns the suffix of the accounts' host names in a cloud, by its name in AZURE_ENVIRONMENT.
func Suffix(environment string) string {
	switch environment {
	case "AzureUSGovernmentCloud", "AzureUSGovernment":
		return "core.usgovcloudapi.net"
	case "AzureChinaCloud":
		return "core.chinacloudapi.cn"
	}
	return "core.windows.net"
}

// FromEnvironment returns how to reach the blobs of an account: with AZURE_STORAGE_KEY, or with tokens.
// env returns an environment variable, or "", as os.Getenv does.
func FromEnvironment(env func(string) string, client *http.Client, token func(context.Context) (string, error)) Config {
	return Config{HTTP: client, Endpoint: env("AZURE_STORAGE_SERVICE_ENDPOINT"), Suffix: Suffix(env("AZURE_ENVIRONMENT")),
		Key: env("AZURE_STORAGE_KEY"), Token: token, Account: env("AZURE_STORAGE_ACCOUNT")}
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
	url           string // as the user wrote it, without a final slash
	account, name string
	endpoint      string // the URL of the container
	prefix        string // empty, or with a final slash
}

// About implements store.Store.
func (s *container) About() store.About {
	return store.About{URL: s.url, DeleteAll: s.deleteAll, Purge: s.purge, Public: s.isPublic, Web: s.webURL}
}

func (s *container) webURL() string { return strings.TrimSuffix(s.endpoint+"/"+s.prefix, "/") }

// checkKey is like store.CheckKey, but also rejects keys that the service would change.
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
	a, err := s.do(ctx, request{method: http.MethodGet, blob: s.prefix + key})
	if err != nil || !a.OK() {
		return nil, "", s.wrapError(ctx, "read", key, a, err)
	}
	v, err := s.version("read", key, a)
	return a.Body, v, err
}

// version returns the ETag in an answer, without its quotes. Without one, nothing would guard the
// next write.
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
	Version    string `xml:"VersionId"` // empty if the account keeps no versions
	Properties struct {
		ETag string `xml:"Etag"`
		Size int64  `xml:"Content-Length"`
		MD5  string `xml:"Content-MD5"`
	}
}

// List implements store.Store. The service's order differs, so everything is listed
// before the first is yielded: one request per five thousand blobs.
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
				continue // a marker of a folder, not one of our objects
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

// list lists everything with a prefix; more contains additional query parameters.
func (s *container) list(ctx context.Context, prefix string, more url.Values) (*listing, error) {
	more.Set("restype", "container")
	more.Set("comp", "list")
	more.Set("prefix", s.prefix+prefix)
	var all listing
	for {
		a, err := s.do(ctx, request{method: http.MethodGet, query: more})
		if err != nil || !a.OK() {
			return nil, s.wrapError(ctx, "list", prefix, a, err)
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
		if public, err := s.isPublic(ctx); err != nil || !public {
			return "", cmp.Or(err, fault.Wrap(fault.Permanent, fmt.Errorf("write %s: it must be public, but the container is not", store.URL(s, key)),
				"make the container's blobs public: az storage container set-permission --account-name "+s.account+" --name "+s.name+" --public-access blob"))
		}
	}
	r := request{method: http.MethodPut, blob: s.prefix + key, body: data, header: http.Header{"X-Ms-Blob-Type": {"BlockBlob"}, "Content-Md5": {md5Sum(data)}}}
	if o.IfAbsent {
		r.header.Set("If-None-Match", "*")
	}
	if o.IfVersion != "" {
		r.header.Set("If-Match", etag(o.IfVersion))
	}
	a, err := s.do(ctx, r)
	switch conditional := o.IfAbsent || o.IfVersion != ""; {
	case err == nil && a.OK():
		return s.version("write", key, a)
	case err == nil && conditional && isConditionFailure(a):
		return store.ResolveConflict(ctx, s, key, data, o, a.Tries)
	}
	return "", s.wrapError(ctx, "write", key, a, err)
}

// isConditionFailure reports whether a write was rejected because its condition does not hold.
func isConditionFailure(a web.Answer) bool {
	c := code(a)
	return c == "ConditionNotMet" || c == "BlobAlreadyExists" || c == "TargetConditionNotMet" || a.Status == http.StatusPreconditionFailed && c != "LeaseIdMissing"
}

// etag is the inverse of version.
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
	a, err := s.do(ctx, r)
	switch {
	case err == nil && (a.OK() || code(a) == "BlobNotFound"):
		return nil
	case err == nil && o.IfVersion != "" && isConditionFailure(a):
		if _, _, err := s.Get(ctx, key); fault.Is(err, fault.Gone) {
			return nil // the service checks the condition first
		}
		return store.ChangedError(store.URL(s, key))
	}
	return s.wrapError(ctx, "delete", key, a, err)
}

// deleteAll removes keys, several at a time.
func (s *container) deleteAll(ctx context.Context, keys []string) error {
	return store.Each(ctx, keys, func(ctx context.Context, key string) error { return s.Delete(ctx, key, store.DeleteOptions{}) })
}

// purge removes keys, and the versions that an account keeps of them. Blobs that its
// soft-delete policy retains for some days cannot be removed earlier.
func (s *container) purge(ctx context.Context, keys []string) error {
	if err := s.deleteAll(ctx, keys); err != nil || len(keys) == 0 {
		return err
	}
	all, err := s.list(ctx, store.CommonPrefix(slices.Min(keys), slices.Max(keys)), url.Values{"include": {"versions"}})
	if err != nil {
		return err
	}
	return store.Each(ctx, all.Blobs, func(ctx context.Context, b blob) error {
		key := strings.TrimPrefix(b.Name, s.prefix)
		if b.Version == "" || !slices.Contains(keys, key) {
			return nil
		}
		a, err := s.do(ctx, request{method: http.MethodDelete, blob: b.Name, query: url.Values{"versionid": {b.Version}}})
		if err == nil && (a.OK() || a.Status == http.StatusNotFound) {
			return nil
		}
		return s.wrapError(ctx, "delete a version of", key, a, err)
	})
}
