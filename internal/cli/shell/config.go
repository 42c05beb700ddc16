package shell

import (
	"log/slog"
	"net/http"
	"slices"
	"time"

	"kops.local/kops"
	"kops.local/kops/internal/complete"
	"kops.local/kops/world"
)

// clientConfig is the world of the client, as the environment describes it.
func (a *App) clientConfig(state string) kops.Config {
	o := world.Options{Env: a.Env, Cache: a.Cache, Kops: a.Program, Version: a.Version, HTTP: a.httpClient()}
	if a.Verbosity > 0 {
		o.Log = a.Err
	}
	c := world.Config(state, o)
	c.Clouds = append(slices.Clone(a.Clouds), c.Clouds...)
	c.Offline = a.Offline
	c.Now, c.Sleep = a.Now, a.Sleep
	c.Holder.User, c.Holder.Host, c.Holder.PID, c.Holder.Command = a.User, a.Host, a.PID, a.Command
	c.Log, c.Phase, c.Leased, c.Watched = a.log(), a.Phase, a.leased, a.watched
	return c
}

// Bundle is the folder of files and images that machines of this host fetch; ""
// when none is named and the user has no cache folder.
func (a *App) Bundle() string { return world.Bundle(a.Env, a.Cache) }

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
	resp, err := t.RoundTripper.RoundTrip(r)
	result := ""
	if err != nil {
		result = err.Error()
	} else {
		result = resp.Status
	}
	t.app.Notef("%s %s://%s%s: %s (%s)\n", r.Method, r.URL.Scheme, r.URL.Host, r.URL.Path, result, t.app.Now().Sub(begun).Round(time.Millisecond))
	return resp, err
}

// log is where the library tells details, or nil when nobody wants them.
func (a *App) log() *slog.Logger {
	if a.Verbosity < requests {
		return nil
	}
	return slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Phase tells what a long command does, where somebody watches.
func (a *App) Phase(name string) {
	if a.Verbosity > 0 || !a.Terminal && slices.Contains([]string{"apply", "delete"}, name) {
		a.Notef("%s …\n", name)
	}
}
