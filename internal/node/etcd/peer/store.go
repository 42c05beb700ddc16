package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// Shared is the store that managers share if each machine has its own folder: the folder of one
// of them, the home. The others reach it through its manager.
type Shared struct {
	// Local is this machine's store.
	Local store.Store
	// Home returns the endpoint of the manager at home, and whether it is this one.
	Home func() (endpoint string, own bool, err error)
	TLS  TLS

	http *http.Client
}

// Share returns the store.
func Share(own store.Store, t TLS, home func() (endpoint string, own bool, err error)) *Shared {
	return &Shared{Local: own, Home: home, TLS: t, http: httpClient(t)}
}

var _ store.Store = (*Shared)(nil)

// Where a manager serves the store. Keys and conditions are in the query.
const (
	objectPath = "/v1/store/object"
	listPath   = "/v1/store/list"
	versionKey = "Version"
)

// Get implements store.Store.
func (s *Shared) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	endpoint, own, err := s.Home()
	if err != nil || own {
		return orElse(err, func() ([]byte, store.Version, error) { return s.Local.Get(ctx, key) })
	}
	return s.ask(ctx, endpoint, http.MethodGet, objectPath, url.Values{"key": {key}}, nil)
}

// Put implements store.Store.
func (s *Shared) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
	endpoint, own, err := s.Home()
	if err != nil {
		return "", err
	}
	if own {
		return s.Local.Put(ctx, key, data, o)
	}
	q := url.Values{"key": {key}, "ifVersion": {string(o.IfVersion)}}
	for name, on := range map[string]bool{"ifAbsent": o.IfAbsent, "private": o.Private} {
		if on {
			q.Set(name, "true")
		}
	}
	_, v, err := s.ask(ctx, endpoint, http.MethodPut, objectPath, q, data)
	return v, err
}

// Delete implements store.Store.
func (s *Shared) Delete(ctx context.Context, key string, o store.DeleteOptions) error {
	endpoint, own, err := s.Home()
	if err != nil {
		return err
	}
	if own {
		return s.Local.Delete(ctx, key, o)
	}
	_, _, err = s.ask(ctx, endpoint, http.MethodDelete, objectPath, url.Values{"key": {key}, "ifVersion": {string(o.IfVersion)}}, nil)
	return err
}

// List implements store.Store.
func (s *Shared) List(ctx context.Context, prefix string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		endpoint, own, err := s.Home()
		if err == nil && own {
			s.Local.List(ctx, prefix)(yield)
			return
		}
		var all []store.Info
		if err == nil {
			var text []byte
			if text, _, err = s.ask(ctx, endpoint, http.MethodGet, listPath, url.Values{"prefix": {prefix}}, nil); err == nil {
				err = json.Unmarshal(text, &all)
			}
		}
		if err != nil {
			yield(store.Info{}, err)
			return
		}
		for _, i := range all {
			if !yield(i, nil) {
				return
			}
		}
	}
}

// Close closes unused connections.
func (s *Shared) Close() { s.http.CloseIdleConnections() }

// About implements store.Store.
func (s *Shared) About() store.About { return store.About{URL: s.Local.About().URL} }

func orElse(err error, do func() ([]byte, store.Version, error)) ([]byte, store.Version, error) {
	if err != nil {
		return nil, "", err
	}
	return do()
}

// ask sends a request to the home.
func (s *Shared) ask(ctx context.Context, endpoint, method, path string, q url.Values, data []byte) (_ []byte, _ store.Version, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ask the manager at %s, which keeps the store: %w", endpoint, err)
		}
	}()
	request, err := http.NewRequestWithContext(ctx, method, "https://"+endpoint+path+"?"+q.Encode(), bytes.NewReader(data))
	if err != nil {
		return nil, "", err
	}
	answer, err := s.http.Do(request)
	if err != nil {
		return nil, "", fault.Wrap(fault.Lost, err, "")
	}
	defer answer.Body.Close() //nolint:errcheck // it was read, or does not matter
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, "", fault.Wrap(fault.Lost, err, "")
	}
	if answer.StatusCode != http.StatusOK {
		return nil, "", failed(answer.Status, text)
	}
	return text, store.Version(answer.Header.Get(versionKey)), nil
}

// failed returns the error in a response.
func failed(status string, text []byte) error {
	var f failure
	if err := json.Unmarshal(text, &f); err != nil || f.Message == "" {
		return fmt.Errorf("status %s", status)
	}
	return fault.New(f.Class, "%s", f.Message)
}

// serve lets other managers use the store, as long as this one is at home.
func (s *Shared) serve(mux *http.ServeMux) {
	handle := func(pattern string, do func(w http.ResponseWriter, r *http.Request, q url.Values) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			err := s.authorize(r)
			if err == nil {
				err = do(w, r, r.URL.Query())
			}
			if err != nil {
				refuse(w, err)
			}
		})
	}
	handle("GET "+objectPath, func(w http.ResponseWriter, r *http.Request, q url.Values) error {
		data, v, err := s.Local.Get(r.Context(), q.Get("key"))
		if err != nil {
			return err
		}
		w.Header().Set(versionKey, string(v))
		_, _ = w.Write(data) // if this fails, the caller is gone
		return nil
	})
	handle("PUT "+objectPath, func(w http.ResponseWriter, r *http.Request, q url.Values) error {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return fault.Wrap(fault.Lost, err, "")
		}
		v, err := s.Local.Put(r.Context(), q.Get("key"), data, store.PutOptions{IfAbsent: q.Get("ifAbsent") != "", IfVersion: store.Version(q.Get("ifVersion")), Private: q.Get("private") != ""})
		w.Header().Set(versionKey, string(v))
		return err
	})
	handle("DELETE "+objectPath, func(_ http.ResponseWriter, r *http.Request, q url.Values) error {
		return s.Local.Delete(r.Context(), q.Get("key"), store.DeleteOptions{IfVersion: store.Version(q.Get("ifVersion"))})
	})
	handle("GET "+listPath, func(w http.ResponseWriter, r *http.Request, q url.Values) error {
		all := []store.Info{}
		for i, err := range s.Local.List(r.Context(), q.Get("prefix")) {
			if err != nil {
				return err
			}
			all = append(all, i)
		}
		return json.NewEncoder(w).Encode(all)
	})
}

// authorize rejects clients that are not managers, and all clients if this machine is not the home.
func (s *Shared) authorize(r *http.Request) error {
	if name := r.TLS.PeerCertificates[0].Subject.CommonName; !strings.HasPrefix(name, clientName) {
		return fault.New(fault.Denied, "%q is not an etcd-manager", name)
	}
	endpoint, own, err := s.Home()
	if err == nil && !own {
		err = fault.New(fault.NotYet, "the store is at %s, not here", endpoint)
	}
	return err
}
