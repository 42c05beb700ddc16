package shell

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kops.local/kops"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/store"
	"kops.local/kops/world"
)

// clientConfig is the world of the client, as the environment describes it.
func (a *App) clientConfig(state string) kops.Config {
	o := world.Options{Env: a.Env, Cache: a.Cache, Kops: a.Program, Version: a.Version, Releases: a.Releases, Programs: a.Programs, HTTP: a.httpClient(), NewKey: a.NewKey}
	if a.Verbosity > 0 {
		o.Log = a.Err
	}
	c := world.Config(state, o)
	c.Clouds = append(slices.Clone(a.Clouds), c.Clouds...)
	c.Offline = a.Offline
	c.World.Now, c.World.Sleep = a.Now, a.Sleep
	h := &c.Identity.Holder
	h.User, h.Host, h.PID, h.Command = a.User, a.Host, a.PID, a.Command
	c.Log = a.log()
	return c
}

// Bundle is the folder of files and images that machines of this host fetch; "" if it is not
// set and the user has no cache folder.
func (a *App) Bundle() string { return world.Bundle(a.Env, a.Cache) }

// Rehearses reports whether this is a program of a rehearsal, whose platform is this host.
func (a *App) Rehearses() bool { return a.Env("KOPS_REHEARSAL") != "" }

// Built is the folder of programs that were built from their modules; "" where there is none.
func (a *App) Built() string {
	if dir := a.Env("KOPS_BUILT"); dir != "" {
		return dir
	}
	if a.Cache == "" {
		return ""
	}
	return filepath.Join(a.Cache, "build")
}

// OpenStore opens a store at a URL, as the state store is opened.
func (a *App) OpenStore(ctx context.Context, url string) (store.Store, error) {
	var all store.Backends
	for _, b := range a.clientConfig("").Store.Backends {
		all = append(all, Inside[store.Backend](b))
	}
	return all.Open(ctx, url)
}

// Features are the switches of KOPS_FEATURE_FLAGS.
func (a *App) Features() complete.Features {
	return complete.ParseFeatures(a.Env("KOPS_FEATURE_FLAGS"))
}

// httpClient sends requests, and tells of them where the user wants it.
func (a *App) httpClient() *http.Client {
	t := world.Transport()
	if a.Verbosity < requests {
		return world.Client(t)
	}
	return world.Client(teller{t, a})
}

// requests is the verbosity from which each request is told.
const requests = 2

// teller tells of each request; what it holds is not shown.
type teller struct {
	http.RoundTripper
	app *App
}

// RoundTrip implements http.RoundTripper.
func (t teller) RoundTrip(r *http.Request) (*http.Response, error) {
	begun := t.app.Now()
	action, r := actionOf(r)
	resp, err := t.RoundTripper.RoundTrip(r)
	result := ""
	if err != nil {
		result = err.Error()
	} else {
		result = resp.Status
	}
	t.app.Notef("%s%s %s://%s%s: %s (%s)\n", action, r.Method, r.URL.Scheme, r.URL.Host, r.URL.Path, result, t.app.Now().Sub(begun).Round(time.Millisecond))
	return resp, err
}

// actionOf is what a signed request asks for that names its action in a header or a form
// (Signature Version 4), as "ec2 DescribeVpcs ", or "" where the path tells it, or nothing
// does. It returns the request to send.
func actionOf(r *http.Request) (string, *http.Request) {
	_, scope, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	parts := strings.Split(scope, "/") // key, day, region, service
	if len(parts) < 5 {
		return "", r
	}
	if _, name, ok := strings.Cut(r.Header.Get("X-Amz-Target"), "."); ok {
		return parts[3] + " " + name + " ", r
	}
	if r.Body == nil || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		return "", r
	}
	text, err := io.ReadAll(r.Body)
	again := *r // a transport must not change the request that it is given
	again.Body = io.NopCloser(io.MultiReader(bytes.NewReader(text), failing{err}))
	form, ferr := url.ParseQuery(string(text))
	if err != nil || ferr != nil || form.Get("Action") == "" {
		return "", &again
	}
	return parts[3] + " " + form.Get("Action") + " ", &again
}

// failing ends a body as its reading ended.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, cmp.Or(f.err, io.EOF) }

// log is where the library tells details, or nil when nobody wants them.
func (a *App) log() *slog.Logger {
	if a.Verbosity < requests {
		return nil
	}
	return slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Phase tells what a long command does, where somebody watches; "" when it has done it.
func (a *App) Phase(name string) {
	a.busy(phases()[name])
	if name == "" {
		return
	}
	if a.Verbosity > 0 || !a.Terminal && slices.Contains([]string{"apply", "delete"}, name) {
		a.Notef("%s …\n", cmp.Or(phases()[name], name))
	}
}
