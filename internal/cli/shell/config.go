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
	"kops.local/kops/internal/engine/redact"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/web"
	"kops.local/kops/world"
)

// clientConfig returns the configuration of the client, as the environment specifies it.
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

// Bundle returns the folder of files and images that machines on this host fetch; "" if it is not
// set and the user has no cache folder.
func (a *App) Bundle() string { return world.Bundle(a.Env, a.Cache) }

// Rehearses reports whether this program runs in a rehearsal, whose platform is this host.
func (a *App) Rehearses() bool { return a.Env("KOPS_REHEARSAL") != "" }

// Built returns the folder of programs that were built from their modules; "" if there is none.
func (a *App) Built() string {
	if dir := a.Env("KOPS_BUILT"); dir != "" {
		return dir
	}
	if a.Cache == "" {
		return ""
	}
	return filepath.Join(a.Cache, "build")
}

// OpenStore opens a store at a URL, in the same way as the state store.
func (a *App) OpenStore(ctx context.Context, url string) (store.Store, error) {
	var all store.Backends
	for _, b := range a.clientConfig("").Store.Backends {
		all = append(all, Inside[store.Backend](b))
	}
	return all.Open(ctx, url)
}

// Features returns the feature flags of KOPS_FEATURE_FLAGS.
func (a *App) Features() complete.Features {
	return complete.ParseFeatures(a.Env("KOPS_FEATURE_FLAGS"))
}

// httpClient returns a client that tells the user which server does not answer, and logs requests if
// the user wants it.
func (a *App) httpClient() *http.Client { return a.clientOver(world.Transport()) }

func (a *App) clientOver(t http.RoundTripper) *http.Client {
	c := world.Client(t)
	if a.Verbosity >= requests {
		c.Transport = loggingTransport{c.Transport, a}
	}
	c.Transport = noticingTransport{c.Transport, silence, a.noteSilence}
	return c
}

// silence is how long a server may take to begin its answer before the user is told.
const silence = 10 * time.Second

// noticingTransport tells the user which server does not answer.
type noticingTransport struct {
	http.RoundTripper
	after time.Duration
	tell  func(host string)
}

// RoundTrip implements http.RoundTripper. Sending a large body takes time itself.
func (t noticingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !web.IsLongPoll(r.Context()) && r.ContentLength < 1<<20 {
		defer time.AfterFunc(t.after, func() { t.tell(r.URL.Host) }).Stop()
	}
	return t.RoundTripper.RoundTrip(r)
}

// noteSilence tells the user once that a server does not answer.
func (a *App) noteSilence(host string) {
	a.mu.Lock()
	told := a.silent[host]
	if a.silent == nil {
		a.silent = map[string]bool{}
	}
	a.silent[host] = true
	a.mu.Unlock()
	if !told {
		a.Notef("waiting for an answer of %s …\n", host)
	}
}

// requests is the verbosity from which each request is logged.
const requests = 2

// loggingTransport logs each request, but not its contents.
type loggingTransport struct {
	http.RoundTripper
	app *App
}

// RoundTrip implements http.RoundTripper.
func (t loggingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
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

// actionOf returns the action that a signed request names in a header or a form (Signature Version
// 4), as "ec2 DescribeVpcs ", or "" if it is in the path, or there is none. It also returns the
// request to send.
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
	again := *r // a transport must not change the request it is given
	again.Body = io.NopCloser(io.MultiReader(bytes.NewReader(text), failingReader{err}))
	form, ferr := url.ParseQuery(string(text))
	if err != nil || ferr != nil || form.Get("Action") == "" {
		return "", &again
	}
	return parts[3] + " " + form.Get("Action") + " ", &again
}

// failingReader is a body that ends with the error with which its reading ended.
type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, cmp.Or(f.err, io.EOF) }

// log returns the logger for the library's details, or nil if they are not wanted.
func (a *App) log() *slog.Logger {
	if a.Verbosity < requests {
		return nil
	}
	return slog.New(slog.NewTextHandler(withoutPasswords{a.Err}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// withoutPasswords removes passwords from the URLs in log records, which handlers write one by one.
type withoutPasswords struct{ to io.Writer }

// Write implements io.Writer.
func (w withoutPasswords) Write(data []byte) (int, error) {
	_, err := io.WriteString(w.to, redact.URLs(string(data)))
	return len(data), err
}

// Phase shows what a long command is doing, on a terminal; "" when it is done.
func (a *App) Phase(name string) {
	a.busy(phases()[name])
	if name == "" {
		return
	}
	if a.Verbosity > 0 || !a.Terminal && slices.Contains([]string{"apply", "delete"}, name) {
		a.Notef("%s …\n", cmp.Or(phases()[name], name))
	}
}
