// Package world is the world that a program of a user sees: state stores in folders
// and buckets, and every platform, reached as environment variables say. They are
// those of the command line.
//
// It must not read them itself, nor see the terminal.
package world

import (
	"crypto"
	"crypto/rand"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kops.local/kops"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/ops/delivery"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/providers"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/store/clusterstore/process"
	"kops.local/kops/internal/store/open/user"
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
	// Version is the version of kops, without a leading v.
	Version string
	// Releases is where releases of kops are, and Programs the digest of the programs for
	// machines that this one was released with; both may be empty. See kops.Programs.
	Releases, Programs string
	// HTTP sends all requests; nil: Client(Transport()).
	HTTP *http.Client
	// NewKey makes a private key; nil: RSA of the size that the environment says.
	NewKey func() (crypto.Signer, error)
	// Log receives what long work on this host tells; may be nil.
	Log io.Writer
}

// Config returns the configuration of a client of the state store at a URL. A
// program that changes clusters says in its Holder who it is.
func Config(state string, o Options) kops.Config {
	if o.HTTP == nil {
		o.HTTP = Client(Transport())
	}
	clouds := providers.All(platform.World{Env: o.Env, Cache: platform.Absolute(o.Cache), Bundle: Bundle(o.Env, o.Cache), Program: o.Kops,
		Version: o.Version, HTTP: o.HTTP, Log: o.Log})
	names, env := nodeconfig.StoreVariables(), map[string]string{}
	for _, p := range clouds {
		names = append(names, p.Store.Variables...)
	}
	for _, name := range names {
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
			URL: state, Environment: env, Region: o.Env("S3_REGION"), Keys: keysOf(o),
			Backends: each[kops.Backend](user.Backends(o.Env, o.HTTP)),
		},
		Clouds:      each[kops.Provider](clouds),
		Programs:    programsOf(o),
		Arch:        architecture(o),
		FileHashes:  fileHashes(o),
		Cache:       o.Cache,
		Version:     o.Version,
		RunObsolete: o.Env("KOPS_RUN_OBSOLETE_VERSION") != "",
		RunTooNew:   o.Env("KOPS_RUN_TOO_NEW_VERSION") != "",
		Features:    kops.Features(complete.ParseFeatures(o.Env("KOPS_FEATURE_FLAGS"))),
		KeySize:     keySize,
		IsSet:       func(name string) bool { return o.Env(name) != "" },
		World:       kops.World{Now: time.Now, Random: rand.Reader, NewKey: o.NewKey, HTTP: o.HTTP},
		Identity:    kops.Identity{Holder: kops.Holder{Process: process.Self()}, Gone: process.Gone},
	}
}

// keysOf are the keys of a server of S3 that is not Amazon's.
func keysOf(o Options) kops.StoreKeys {
	if o.Env(storekeys.Endpoint) == "" {
		return kops.StoreKeys{}
	}
	return kops.StoreKeys{ID: o.Env(storekeys.ID), Secret: o.Env(storekeys.Secret)}
}

// programsOf says where kops' own programs for machines are: beside kops, or in the cache.
func programsOf(o Options) kops.Programs {
	p := kops.Programs{Releases: o.Releases, Digest: o.Programs, Base: o.Env("KOPS_BASE_URL"), Images: map[string]string{}}
	for program, variable := range map[string]string{
		programs.DNSController: "DNSCONTROLLER_IMAGE", programs.Controller: "KOPSCONTROLLER_IMAGE", programs.Healthcheck: "KUBE_APISERVER_HEALTHCHECK_IMAGE",
	} {
		if image := o.Env(variable); image != "" {
			p.Images[program] = image
		}
	}
	if named := o.Env("KOPS_PROGRAMS"); named != "" {
		p.Archives = []string{named}
		return p
	}
	if o.Kops != "" {
		p.Archives = append(p.Archives, filepath.Join(filepath.Dir(o.Kops), delivery.FileName(o.Version)))
	}
	if o.Cache != "" {
		p.Archives = append(p.Archives, filepath.Join(o.Cache, "programs", delivery.FileName(o.Version)))
	}
	return p
}

// architecture is that of all machines, where a variable says so. Another word is both.
func architecture(o Options) string {
	for _, a := range download.Arches() {
		if o.Env("KOPS_ARCH") == string(a) {
			return string(a)
		}
	}
	return ""
}

// fileHashes are digests of files that a variable states: SHA256@URL, separated by commas.
func fileHashes(o Options) map[string]string {
	out := map[string]string{}
	for entry := range strings.SplitSeq(o.Env(FileHashes), ",") {
		if sum, url, ok := strings.Cut(entry, "@"); ok && download.IsSHA256(sum) {
			out[url] = sum
		}
	}
	return out
}

// FileHashes is the variable with the digests of files that machines will find in place of
// their publishers'.
const FileHashes = "KOPS_FILE_HASHES"

// each lists values as the interface that they implement.
func each[I, T any](list []T) []I {
	out := make([]I, len(list))
	for i := range list {
		out[i] = any(list[i]).(I)
	}
	return out
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

// Bundle is the folder of files and images that machines of this host fetch; "" if it is not
// set and the user has no cache folder.
func Bundle(env func(string) string, cache string) string {
	dir := env("KOPS_BUNDLE")
	if dir == "" && cache != "" {
		dir = filepath.Join(cache, "bundle")
	}
	return platform.Absolute(dir)
}
