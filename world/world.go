// Package world is the world that a program of a user sees: state stores in folders
// and buckets, and every platform, reached as environment variables say. They are
// those of the command line.
//
// It must not read them itself, nor see the terminal.
package world

import (
	"crypto/rand"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"kops.local/kops"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/platform/aws"
	"kops.local/kops/internal/platform/local"
	"kops.local/kops/internal/platform/providers"
	"kops.local/kops/internal/platform/ssh"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/store/clusterstore/process"
	"kops.local/kops/internal/store/open"
	"kops.local/kops/internal/store/s3/sdkchain"
	"kops.local/kops/internal/store/web"
)

// Options are what a program knows of its world. Env is needed.
type Options struct {
	// Env returns an environment variable, or "", as os.Getenv does.
	Env func(string) string
	// Cache is a folder for what can be fetched again; empty: no cache.
	Cache string
	// Kops is the path of the kops program, which keeps clusters of this host; those
	// of other platforms need none.
	Kops string
	// Version is that of kops, without a leading v.
	Version string
	// HTTP sends all requests; nil: Client(Transport()).
	HTTP *http.Client
	// Log receives what long work on this host tells; may be nil.
	Log io.Writer
}

// Config returns the configuration of a client of the state store at a URL. A
// program that changes clusters says in its Holder who it is.
func Config(state string, o Options) kops.Config {
	if o.HTTP == nil {
		o.HTTP = Client(Transport())
	}
	env := map[string]string{}
	for _, name := range nodeconfig.KnownVariables() {
		if v := o.Env(name); v != "" {
			env[name] = v
		}
	}
	keySize, err := strconv.Atoi(o.Env("KOPS_RSA_PRIVATE_KEY_SIZE"))
	if err != nil {
		keySize = 0 // the usual one
	}
	return kops.Config{
		Store: kops.Store{
			URL: state, Environment: env, Region: o.Env("S3_REGION"),
			Backends: each[kops.Backend](open.Backends(open.Options{Env: o.Env, HTTP: o.HTTP, Account: sdkchain.Credentials{}})),
		},
		Clouds: each[kops.Provider](providers.All(providers.Options{
			SSH: login(o.Env),
			AWS: aws.Options{Endpoint: o.Env("AWS_ENDPOINT_URL"), RoleARN: o.Env("KOPS_AWS_ROLE_ARN"), Region: open.Region(o.Env),
				Credentials: open.Credentials(o.Env), HTTP: o.HTTP, Version: o.Version},
			Local: local.Options{Root: absolute(o.Env("KOPS_LOCAL_ROOT")), Cache: absolute(o.Cache), Bundle: Bundle(o.Env, o.Cache),
				Keeper: local.KeepCommand(o.Kops), Log: o.Log},
		})),
		Cache:       o.Cache,
		Version:     o.Version,
		RunObsolete: o.Env("KOPS_RUN_OBSOLETE_VERSION") != "",
		RunTooNew:   o.Env("KOPS_RUN_TOO_NEW_VERSION") != "",
		Features:    kops.Features(complete.ParseFeatures(o.Env("KOPS_FEATURE_FLAGS"))),
		KeySize:     keySize,
		IsSet:       func(name string) bool { return o.Env(name) != "" },
		World:       kops.World{Now: time.Now, Random: rand.Reader, HTTP: o.HTTP},
		Identity:    kops.Identity{Holder: kops.Holder{Process: process.Self()}, Gone: process.Gone},
	}
}

// each lists values as the interface that they implement.
func each[I, T any](list []T) []I {
	out := make([]I, len(list))
	for i := range list {
		out[i] = any(list[i]).(I)
	}
	return out
}

// login is how the user's machines are logged in to: by the user's agent and keys, as ssh(1) does.
func login(env func(string) string) ssh.Options {
	o := ssh.Options{Agent: env("SSH_AUTH_SOCK"), Keys: filepath.SplitList(env("KOPS_SSH_KEY")), Known: []string{"/etc/ssh/ssh_known_hosts"}}
	if home := env("HOME"); home != "" {
		folder := filepath.Join(home, ".ssh")
		o.Known = append(o.Known, filepath.Join(folder, "known_hosts"))
		if len(o.Keys) == 0 {
			o.Keys = []string{filepath.Join(folder, "id_ed25519"), filepath.Join(folder, "id_ecdsa"), filepath.Join(folder, "id_rsa")}
		}
	}
	return o
}

// Client sends requests by a transport, and follows no redirect from TLS to a place without.
func Client(t http.RoundTripper) *http.Client {
	return &http.Client{Transport: t, CheckRedirect: web.KeepTLS}
}

// Transport keeps connections to a server open, as many as are used at once. It
// never asks this machine's own services for what a spec names.
func Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = web.Dialer().DialContext
	t.MaxIdleConnsPerHost = 64
	t.ResponseHeaderTimeout = 2 * time.Minute
	return t
}

// Bundle is the folder of files and images that machines of this host fetch; ""
// when none is named and the user has no cache folder.
func Bundle(env func(string) string, cache string) string {
	dir := env("KOPS_BUNDLE")
	if dir == "" && cache != "" {
		dir = filepath.Join(cache, "bundle")
	}
	return absolute(dir)
}

// absolute is a folder as processes that run in another one must name it; ""
// stays so.
func absolute(dir string) string {
	if dir == "" {
		return ""
	}
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir // the current folder is gone: the folder is told as it was named
}
