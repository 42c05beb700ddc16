package web

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// Backend reads http:// and https://. A web server can neither list nor accept objects:
// stores there can be read, and everything else is refused.
func Backend(client *http.Client) store.Backend {
	if client == nil {
		client = NewClient()
	}
	return store.Backend{
		Schemes: []string{"http", "https"}, ReadOnly: true,
		Open: func(_ context.Context, scheme, rest string) (store.Store, error) {
			if host, _, _ := strings.Cut(rest, "/"); host == "" {
				return nil, fault.New(fault.Permanent, "the name of the host is missing")
			}
			return &site{client, scheme + "://" + strings.TrimSuffix(rest, "/")}, nil
		},
		Read: func(ctx context.Context, scheme, rest string) (io.ReadCloser, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+rest, nil)
			if err != nil {
				return nil, fault.Wrap(fault.Permanent, err, "")
			}
			return Send(client, req)
		},
	}
}

// site is the Store below one URL.
type site struct {
	client *http.Client
	url    string
}

// About implements store.Store.
func (s *site) About() store.About {
	return store.About{URL: s.url, Web: func() string { return s.url }}
}

// Get implements store.Store. The version is the digest of the content.
func (s *site) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	if err := store.CheckKey(key); err != nil {
		return nil, "", err
	}
	what := "read " + store.URL(s, key)
	a, err := Do(ctx, s.client, func() (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/"+escapePath(key), nil)
	}, nil)
	switch {
	case ctx.Err() != nil:
		return nil, "", fmt.Errorf("%s: %w", what, ctx.Err())
	case err != nil:
		return nil, "", ConnectionError(what, err)
	case a.OK():
		return a.Body, store.Version(store.Digest(a.Body)), nil
	}
	return nil, "", fault.New(ClassOf(a.Status), "%s: the server answers %d %s", what, a.Status, http.StatusText(a.Status))
}

// escapePath returns a key as the path of a URL.
func escapePath(key string) string {
	var out []string
	for part := range strings.SplitSeq(key, "/") {
		out = append(out, url.PathEscape(part))
	}
	return strings.Join(out, "/")
}

// readOnlyError returns the error for what web servers cannot do.
func (s *site) readOnlyError(doing, key string) error {
	return fault.Wrap(fault.Permanent, fmt.Errorf("%s %s: a web server is read-only", doing, store.URL(s, key)),
		"keep the state in a bucket, such as s3://… or gs://…, or in a folder")
}

// List implements store.Store. It always fails.
func (s *site) List(_ context.Context, prefix string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) { yield(store.Info{}, s.readOnlyError("list", prefix)) }
}

// Put implements store.Store. It always fails.
func (s *site) Put(_ context.Context, key string, _ []byte, _ store.PutOptions) (store.Version, error) {
	return "", s.readOnlyError("write", key)
}

// Delete implements store.Store. It always fails.
func (s *site) Delete(_ context.Context, key string, _ store.DeleteOptions) error {
	return s.readOnlyError("delete", key)
}
