// Package gs is the store in a bucket of Google Cloud Storage, or of a server that emulates it.
//
// It uses the JSON API directly. Google's client for it, google.golang.org/api/storage/v1,
// adds 10 MB to a program (a program with nothing else has 16.2 MB; with only net/http, 6.2
// MB), and every machine downloads programs that open stores.
//
// It must not know what the objects mean, nor read the environment: tokens and endpoint are
// passed in.
package gs

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/gs/token"
	"kops.local/kops/internal/store/web"
)

// Google is the endpoint of Google Cloud Storage.
const Google = "https://storage.googleapis.com"

// Config is the endpoint and the credentials.
type Config struct {
	// HTTP sends the requests; nil: a client of its own for each store.
	HTTP *http.Client
	// Endpoint is the URL of an emulator, or its host and port, which is used without TLS;
	// both forms as in STORAGE_EMULATOR_HOST. Empty: Google's.
	Endpoint string
	// Token provides access tokens; nil: requests are anonymous.
	Token token.Source
}

// FromEnvironment returns how to reach Google's buckets: at STORAGE_EMULATOR_HOST, or at Google
// itself. An emulator has no users, and gets no credentials. env returns an environment variable, or
// "", as os.Getenv does.
func FromEnvironment(env func(string) string, client *http.Client, tokens token.Source) Config {
	c := Config{HTTP: client, Endpoint: env("STORAGE_EMULATOR_HOST")}
	if c.Endpoint == "" {
		c.Token = tokens
	}
	return c
}

// Backend opens gs://bucket/folder. A single object is read anonymously if it is
// public, and otherwise with the token.
func Backend(c Config) store.Backend {
	switch {
	case c.Endpoint == "":
		c.Endpoint = Google
	case !strings.Contains(c.Endpoint, "://"):
		c.Endpoint = "http://" + c.Endpoint
	}
	c.Endpoint = strings.TrimSuffix(c.Endpoint, "/")
	if c.HTTP == nil {
		c.HTTP = web.NewClient()
	}
	if c.Token != nil {
		c.Token = token.Cached(c.Token)
	}
	return store.Backend{Schemes: []string{"gs"}, Open: c.open, Read: c.read, Bucket: &store.Bucket{
		Kind: "google_storage_bucket_object", API: "storage", Provider: "google.files", Readers: "google_storage_object_acl",
		Arguments: map[string]string{"Key": "name", "Content": "source,path,zero", "ACL": ""}}}
}

func (c Config) open(_ context.Context, _, rest string) (store.Store, error) {
	name, prefix, _ := strings.Cut(rest, "/")
	if name == "" {
		return nil, fault.New(fault.Permanent, "the name of the bucket is missing")
	}
	b := &bucket{c: c, name: name, url: "gs://" + name}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		b.url += "/" + prefix
		b.prefix = prefix + "/"
	}
	return b, nil
}

// read streams an object, which may be a program of a hundred megabytes.
func (c Config) read(ctx context.Context, _, name string) (io.ReadCloser, error) {
	in, key, _ := strings.Cut(name, "/")
	b := &bucket{c: c, name: in, url: "gs://" + in}
	anybody, err := b.request(ctx, http.MethodGet, b.object(key)+"?alt=media", nil, "")
	if err != nil {
		return nil, err
	}
	body, err := web.Send(c.HTTP, anybody)
	if c.Token == nil || !fault.Is(err, fault.Denied) {
		return body, err
	}
	own := anybody.Clone(ctx)
	if terr := c.sign(own); terr != nil {
		return nil, fault.Wrap(fault.Denied, fmt.Errorf("%w to everyone, and %w", err, terr), fault.Remedy(terr))
	}
	return web.Send(c.HTTP, own)
}

// bucket is the Store below one prefix of one bucket.
type bucket struct {
	c      Config
	url    string // as the user wrote it, without a final slash
	name   string
	prefix string // empty, or with a final slash
	// exists is true once the bucket has answered, so that "not found" means the object.
	exists atomic.Bool
}

// About implements store.Store.
func (b *bucket) About() store.About {
	return store.About{URL: b.url, DeleteAll: b.deleteAll, Purge: b.purge, Public: b.isPublic, Web: b.webURL}
}

// webURL returns the URL at which browsers find the store (Cloud Storage, "Request endpoints").
func (b *bucket) webURL() string {
	return strings.TrimSuffix(b.c.Endpoint+"/"+b.name+"/"+b.prefix, "/")
}

// Get implements store.Store.
func (b *bucket) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	if err := store.CheckKey(key); err != nil {
		return nil, "", err
	}
	var a web.Answer
	var err error
	for range 2 { // damaged content is requested once more
		a, err = b.do(ctx, http.MethodGet, b.object(b.prefix+key)+"?alt=media", nil, "")
		if err != nil || !a.OK() {
			return nil, "", b.wrapError(ctx, "read", "storage.objects.get", key, a, err)
		}
		v := store.Version(a.Header.Get("X-Goog-Generation"))
		if v == "" {
			return nil, "", fault.Wrap(fault.Permanent, fmt.Errorf("read %s: the answer has no generation", store.URL(b, key)),
				"the server, or a proxy in front of it, does not support conditional writes; use another one")
		}
		if isComplete(a) {
			return a.Body, v, nil
		}
	}
	return nil, "", fault.Wrap(fault.Lost, fmt.Errorf("read %s: the checksum of the received data differs from the object's checksum", store.URL(b, key)), "check the network, and any proxy")
}

// isComplete reports whether an object matches the checksum that the server states. For an
// object stored in compressed form, that is the checksum of the compressed form.
func isComplete(a web.Answer) bool {
	if e := a.Header.Get("X-Goog-Stored-Content-Encoding"); e != "" && e != "identity" {
		return true
	}
	for h := range strings.SplitSeq(strings.Join(a.Header.Values("X-Goog-Hash"), ","), ",") {
		if sum, ok := strings.CutPrefix(strings.TrimSpace(h), "crc32c="); ok {
			return sum == checksum(a.Body)
		}
	}
	return true
}

// checksum returns the CRC32C of a content, in the API's format: base64 of 4 bytes, big-endian.
func checksum(data []byte) string {
	n := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// object is the API's description of an object (Cloud Storage JSON API, resource Object).
type object struct {
	Name       string `json:"name"`
	Size       int64  `json:"size,string"`
	Generation string `json:"generation"`
	MD5        string `json:"md5Hash"`
	CRC32C     string `json:"crc32c"`
}

// listing is a page of objects.
type listing struct {
	Items []object `json:"items"`
	Next  string   `json:"nextPageToken"`
}

// List implements store.Store: one request per thousand objects.
func (b *bucket) List(ctx context.Context, prefix string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		for page := (&listing{Next: "-"}); page.Next != ""; {
			var err error
			if page, err = b.list(ctx, prefix, page.Next, false); err != nil {
				yield(store.Info{}, err)
				return
			}
			for _, o := range page.Items {
				if !strings.HasSuffix(o.Name, "/") && !yield(b.info(o), nil) {
					return // a name with a final slash is a marker of a folder, not one of our objects
				}
			}
		}
	}
}

// list requests a page of the objects below a prefix, or of their versions; after is the page token, or
// "-" for the first page.
func (b *bucket) list(ctx context.Context, prefix, after string, versions bool) (*listing, error) {
	q := url.Values{"prefix": {b.prefix + prefix}, "maxResults": {"1000"}, "fields": {"items(name,size,generation,md5Hash),nextPageToken"}}
	if after != "-" {
		q.Set("pageToken", after)
	}
	if versions {
		q.Set("versions", "true")
	}
	a, err := b.do(ctx, http.MethodGet, b.objects()+"?"+q.Encode(), nil, "")
	if err != nil || !a.OK() {
		return nil, b.wrapError(ctx, "list", "storage.objects.list", prefix, a, err)
	}
	var page listing
	if err := json.Unmarshal(a.Body, &page); err != nil {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("list %s: the answer does not come from the storage service: %w", store.URL(b, prefix), err), "check any proxy")
	}
	return &page, nil
}

// info converts an entry of a listing. An object that was composed of others has no MD5.
func (b *bucket) info(o object) store.Info {
	i := store.Info{Key: strings.TrimPrefix(o.Name, b.prefix), Size: o.Size, Version: store.Version(o.Generation)}
	if sum, err := base64.StdEncoding.DecodeString(o.MD5); err == nil {
		i.Digest = hex.EncodeToString(sum)
	}
	return i
}
