// Package swift stores objects in a container of OpenStack's object storage.
//
// Swift has no atomic conditional writes: it checks the If-None-Match of a PUT before the
// write and not during it, and ignores If-Match on PUT and DELETE (Object Storage API; its
// own servers do so). A conditional write therefore reads the object before the write, and
// again some time after it: of several concurrent writers, only the last one then finds its
// own write. This is Fischer's timed lock: it works as long as no write takes longer than
// Config.Settle to take effect. A conditional removal only reads before it.
//
// It must not know what the objects mean, nor read the environment: login and endpoint are
// passed in.
package swift

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/web"
)

// Session is the result of a login.
type Session struct {
	// Endpoint is the account's URL in the object storage, and Token the access token.
	Endpoint, Token string
}

// Config configures the login and the requests.
type Config struct {
	// HTTP sends the requests; nil: a client of its own for each store.
	HTTP *http.Client
	// Login is called when a session is first needed, and again when one has expired.
	// Errors have class fault.Denied.
	Login func(context.Context) (Session, error)
	// Settle is the time after a conditional write within which concurrent writes must
	// have taken effect; zero: 2 s.
	Settle time.Duration
}

// Backend opens swift://container/folder.
func Backend(c Config) store.Backend {
	if c.HTTP == nil {
		c.HTTP = web.NewClient()
	}
	c.Settle = cmp.Or(c.Settle, 2*time.Second)
	session := &login{logIn: c.Login}
	return store.Backend{Schemes: []string{"swift"}, Open: func(_ context.Context, _, rest string) (store.Store, error) {
		name, prefix, _ := strings.Cut(rest, "/")
		if name == "" {
			return nil, fault.New(fault.Permanent, "the name of the container is missing")
		}
		s := &container{c: c, session: session, name: name, url: "swift://" + name}
		if prefix = strings.Trim(prefix, "/"); prefix != "" {
			s.url += "/" + prefix
			s.prefix = prefix + "/"
		}
		return s, nil
	}}
}

// login keeps the session that all stores of a program share.
type login struct {
	logIn   func(context.Context) (Session, error)
	mu      sync.Mutex
	current Session
}

// session returns the current session; if that is ended, or there is none, it logs in.
func (l *login) session(ctx context.Context, ended Session) (Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current != (Session{}) && l.current != ended {
		return l.current, nil
	}
	now, err := l.logIn(ctx)
	if err == nil {
		l.current = now
	}
	return now, err
}

// container is the Store below one prefix of one container.
type container struct {
	c       Config
	session *login
	url     string // as the user wrote it, without a final slash
	name    string
	prefix  string // empty, or with a final slash
	// exists is true once the container has answered, so that "not found" means the object.
	exists atomic.Bool
}

// About implements store.Store.
func (s *container) About() store.About {
	return store.About{URL: s.url, Timed: true, DeleteAll: s.deleteAll, Public: s.isPublic}
}

// Get implements store.Store. It requests the newest copy of the object.
func (s *container) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	if err := store.CheckKey(key); err != nil {
		return nil, "", err
	}
	a, err := s.do(ctx, request{method: http.MethodGet, object: s.prefix + key, header: http.Header{"X-Newest": {"true"}}})
	if err != nil || !a.OK() {
		return nil, "", s.wrapError(ctx, "read", key, a, err)
	}
	return a.Body, version(a), nil
}

// version returns the digest of the content, which is its ETag.
func version(a web.Answer) store.Version {
	return store.Version(strings.Trim(a.Header.Get("ETag"), `"`))
}

// List implements store.Store: one request per ten thousand objects.
func (s *container) List(ctx context.Context, prefix string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		q := url.Values{"format": {"json"}, "prefix": {s.prefix + prefix}}
		for {
			a, err := s.do(ctx, request{method: http.MethodGet, query: q})
			if err != nil || !a.OK() {
				yield(store.Info{}, s.wrapError(ctx, "list", prefix, a, err))
				return
			}
			var page []struct {
				Name, Hash string
				Bytes      int64
			}
			if err := json.Unmarshal(a.Body, &page); err != nil {
				yield(store.Info{}, fault.Wrap(fault.Permanent, fmt.Errorf("list %s: the answer does not come from the storage service: %w", store.URL(s, prefix), err), "check any proxy"))
				return
			}
			for _, o := range page {
				if !strings.HasSuffix(o.Name, "/") && !yield(store.Info{Key: strings.TrimPrefix(o.Name, s.prefix), Size: o.Bytes, Version: store.Version(o.Hash), Digest: o.Hash}, nil) {
					return // a name with a final slash is a marker of a folder, not one of our objects
				}
			}
			if len(page) == 0 {
				return
			}
			q.Set("marker", page[len(page)-1].Name)
		}
	}
}

// Put implements store.Store.
func (s *container) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
	if err := store.CheckKey(key); err != nil {
		return "", err
	}
	if o.PublicRead {
		if public, err := s.isPublic(ctx); err != nil || !public {
			return "", cmp.Or(err, fault.Wrap(fault.Permanent, fmt.Errorf("write %s: it must be public, but the container is not", store.URL(s, key)),
				"let everyone read the container: swift post --read-acl .r:* "+s.name))
		}
	}
	if o.IfAbsent || o.IfVersion != "" {
		return s.putConditionally(ctx, key, data, o)
	}
	a, err := s.write(ctx, key, data, o)
	if err != nil || !a.OK() {
		return "", s.wrapError(ctx, "write", key, a, err)
	}
	return version(a), nil
}

func (s *container) write(ctx context.Context, key string, data []byte, o store.PutOptions) (web.Answer, error) {
	h := http.Header{"Etag": {store.Digest(data)}, "Content-Type": {"application/octet-stream"}}
	if o.IfAbsent {
		h.Set("If-None-Match", "*")
	}
	return s.do(ctx, request{method: http.MethodPut, object: s.prefix + key, header: h, body: data})
}

// putConditionally performs a conditional write, as described for the package.
func (s *container) putConditionally(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
	at := store.URL(s, key)
	now, err := s.current(ctx, key)
	if err == nil {
		err = o.Check(at, now)
	}
	if err != nil {
		return "", err
	}
	timed, cancel := context.WithTimeout(ctx, s.c.Settle)
	defer cancel()
	a, err := s.write(timed, key, data, o)
	switch {
	case err != nil && timed.Err() != nil && ctx.Err() == nil:
		return "", fault.Wrap(fault.Lost, fmt.Errorf("write %s: the server took longer than %v; another command may have written meanwhile", at, s.c.Settle), "check the network, and the load of the server")
	case err == nil && a.Status == http.StatusPreconditionFailed:
		return store.ResolveConflict(ctx, s, key, data, o, a.Tries)
	case err != nil || !a.OK():
		return "", s.wrapError(ctx, "write", key, a, err)
	}
	if err := clock.Sleep(ctx, s.c.Settle); err != nil {
		return "", fmt.Errorf("write %s: %w", at, err)
	}
	now, err = s.current(ctx, key)
	switch {
	case err != nil:
		return "", err
	case now != version(a):
		return store.ResolveConflict(ctx, s, key, data, o, 1)
	}
	return now, nil
}

// current returns the current version, or "".
func (s *container) current(ctx context.Context, key string) (store.Version, error) {
	a, err := s.do(ctx, request{method: http.MethodHead, object: s.prefix + key, header: http.Header{"X-Newest": {"true"}}})
	if err == nil && a.OK() {
		return version(a), nil
	}
	if err = s.wrapError(ctx, "read", key, a, err); fault.Is(err, fault.Gone) {
		return "", nil
	}
	return "", err
}

// Delete implements store.Store.
func (s *container) Delete(ctx context.Context, key string, o store.DeleteOptions) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	if o.IfVersion != "" {
		now, err := s.current(ctx, key)
		if err == nil {
			err = o.Check(store.URL(s, key), now)
		}
		if err != nil || now == "" {
			return err
		}
	}
	a, err := s.do(ctx, request{method: http.MethodDelete, object: s.prefix + key})
	if err == nil && a.OK() {
		return nil
	}
	if err = s.wrapError(ctx, "delete", key, a, err); fault.Is(err, fault.Gone) {
		return nil
	}
	return err
}

// deleteAll removes keys, several at a time.
func (s *container) deleteAll(ctx context.Context, keys []string) error {
	return store.Each(ctx, keys, func(ctx context.Context, key string) error { return s.Delete(ctx, key, store.DeleteOptions{}) })
}

// isPublic reports whether the objects of the container are publicly readable.
func (s *container) isPublic(ctx context.Context) (bool, error) {
	a, err := s.do(ctx, request{method: http.MethodHead})
	if err != nil || !a.OK() {
		return false, s.wrapError(ctx, "check whether public access is allowed to", "", a, err)
	}
	return slices.Contains(strings.Split(strings.ReplaceAll(a.Header.Get("X-Container-Read"), " ", ""), ","), ".r:*"), nil
}

// request is a request for an object, by its name in the container, or for the container.
type request struct {
	method, object string
	query          url.Values
	header         http.Header
	body           []byte
}

// do sends a request, retrying as web.Do does, and logs in again if the session has expired.
func (s *container) do(ctx context.Context, r request) (web.Answer, error) {
	var session, ended Session
	a, err := web.Do(ctx, s.c.HTTP, func() (*http.Request, error) {
		var err error
		if session, err = s.session.session(ctx, ended); err != nil {
			return nil, err
		}
		at := strings.TrimSuffix(session.Endpoint, "/") + "/" + url.PathEscape(s.name)
		if r.object != "" {
			at += "/" + url.PathEscape(r.object)
		}
		if len(r.query) > 0 {
			at += "?" + r.query.Encode()
		}
		req, err := http.NewRequestWithContext(ctx, r.method, at, bytes.NewReader(r.body))
		if err != nil {
			return nil, fault.Wrap(fault.Permanent, err, "")
		}
		maps.Copy(req.Header, r.header)
		req.Header.Set("X-Auth-Token", session.Token)
		// Servers terminate a body even for answers that must not have one.
		req.Close = r.method == http.MethodDelete || r.method == http.MethodHead
		return req, nil
	}, func(a web.Answer) bool {
		over := a.Status == http.StatusUnauthorized && ended == Session{}
		if over {
			ended = session
		}
		return over || a.Status == rateLimited
	})
	if err == nil && a.OK() {
		s.exists.Store(true)
	}
	return a, err
}

// rateLimited is the status of a rate-limited request (Swift, "Rate Limiting").
const rateLimited = 498

// isContainerMissing reports whether it is the container that is missing, unless it has answered before.
func (s *container) isContainerMissing(ctx context.Context) bool {
	if s.exists.Load() {
		return false
	}
	a, err := s.do(ctx, request{method: http.MethodHead})
	return err == nil && a.Status == http.StatusNotFound
}

// wrapError adds the failed operation to an error, and classifies it.
func (s *container) wrapError(ctx context.Context, doing, key string, a web.Answer, err error) error {
	what := doing + " " + store.URL(s, key)
	if ctx.Err() != nil { // a timeout of the connection looks like one of the context
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	if err != nil {
		return web.ConnectionError(what, err)
	}
	err = errors.New(strings.TrimSpace(fmt.Sprintf("%s: the server answers %d %s", what, a.Status, http.StatusText(a.Status))))
	switch a.Status {
	case http.StatusNotFound:
		if doing == "write" || doing == "list" || s.isContainerMissing(ctx) {
			return fault.Wrap(fault.Permanent, &store.MissingError{Err: err}, fmt.Sprintf("create the container (openstack container create %s), or correct its name", s.name))
		}
		return fault.Wrap(fault.Gone, err, "")
	case http.StatusUnauthorized:
		return fault.Wrap(fault.Denied, err, "check OS_USERNAME and OS_PASSWORD, or the application credential")
	case http.StatusForbidden:
		return fault.Wrap(fault.Denied, err, "give this user a role in the project that may write objects, such as member, or give the container "+s.name+" an ACL that allows it")
	case http.StatusConflict, http.StatusPreconditionFailed:
		return fault.Wrap(fault.Conflict, err, "")
	case http.StatusRequestEntityTooLarge, http.StatusInsufficientStorage:
		return fault.Wrap(fault.Quota, err, "ask for a larger quota of the account or the container, or free some space")
	case http.StatusUnprocessableEntity:
		return fault.Wrap(fault.Lost, fmt.Errorf("%w: the object arrived damaged", err), "check the network, and any proxy")
	case rateLimited, http.StatusTooManyRequests, http.StatusRequestTimeout:
		return fault.Wrap(fault.Throttled, err, "")
	}
	if a.Status/100 == 5 {
		return fault.Wrap(fault.Throttled, err, "")
	}
	return fault.Wrap(fault.Permanent, err, "")
}
