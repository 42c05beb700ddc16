// Package world configures a client for a user's program: state stores in folders and
// buckets, and all platforms, with the same environment variables as the kops command.
//
// It must not read the environment itself, nor use the terminal.
package world

import (
	"crypto"
	"crypto/rand"
	"io"
	"net/http"
	"net/url"
	"path"
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

// Options describe the environment of a program. Env is required.
type Options struct {
	// Env returns an environment variable, or "", as os.Getenv does.
	Env func(string) string
	// Cache is a folder for files that can be downloaded again; empty: no cache.
	Cache string
	// Kops is the path of the kops program, which runs the clusters of this host; other
	// platforms do not need it.
	Kops string
	// Version is the version of kops, without a leading v.
	Version string
	// Releases is the URL of the kops releases, and Programs the digest of the programs for
	// machines that belong to this version; both may be empty. See kops.Programs.
	Releases, Programs string
	// HTTP sends all requests; nil: Client(Transport()).
	HTTP *http.Client
	// NewKey generates a private key; nil: RSA, with the key size of KOPS_RSA_PRIVATE_KEY_SIZE.
	NewKey func() (crypto.Signer, error)
	// Log receives the output of long operations on this host; may be nil.
	Log io.Writer
}

// Config returns the configuration of a client of the state store at a URL. A program
// that changes clusters identifies itself in the Holder.
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
		keySize = 0 // the default
	}
	return kops.Config{
		Store: kops.Store{
			URL: state, Environment: env, Region: o.Env("S3_REGION"), Keys: keysOf(o),
			Backends: each[kops.Backend](user.Backends(o.Env, o.HTTP)),
		},
		Clouds:      each[kops.Provider](clouds),
		Programs:    programsOf(o),
		Arch:        architecture(o),
		PluginsURL:  plugins(o.Env),
		FileHashes:  fileHashes(o),
		Cache:       o.Cache,
		Version:     o.Version,
		RunObsolete: o.Env("KOPS_RUN_OBSOLETE_VERSION") != "",
		RunTooNew:   o.Env("KOPS_RUN_TOO_NEW_VERSION") != "",
		Features:    kops.Features(complete.ParseFeatures(o.Env("KOPS_FEATURE_FLAGS"))),
		KeySize:     keySize,
		IsSet:       func(name string) bool { return o.Env(name) != "" },
		World:       kops.World{Now: time.Now, Random: rand.Reader, NewKey: o.NewKey, HTTP: o.HTTP},
		Identity:    kops.Identity{Holder: kops.Holder{Process: process.Self()}, ProcessEnded: process.HasEnded},
	}
}

// keysOf returns the credentials of an S3 server other than Amazon's, if one is set.
func keysOf(o Options) kops.StoreKeys {
	if o.Env(storekeys.Endpoint) == "" {
		return kops.StoreKeys{}
	}
	return kops.StoreKeys{ID: o.Env(storekeys.ID), Secret: o.Env(storekeys.Secret)}
}

// programsOf returns where to find kops' own programs for machines: beside kops, or in
// the cache, unless KOPS_PROGRAMS names an archive.
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

// architecture returns the architecture of all machines, as KOPS_ARCH sets it; "" means
// both architectures.
func architecture(o Options) string {
	for _, a := range download.Arches() {
		if o.Env("KOPS_ARCH") == string(a) {
			return string(a)
		}
	}
	return ""
}

// fileHashes returns the digests in KOPS_FILE_HASHES by URL. The variable holds SHA256@URL
// entries, separated by commas.
func fileHashes(o Options) map[string]string {
	out := map[string]string{}
	for entry := range strings.SplitSeq(o.Env(FileHashes), ",") {
		if sum, url, ok := strings.Cut(entry, "@"); ok && download.IsSHA256(sum) {
			out[url] = sum
		}
	}
	if archive, sum := plugins(o.Env), pluginsDigest(o.Env); archive != "" && sum != "" {
		out[archive] = sum
	}
	return out
}

// plugins returns the URL of the archive of CNI plugins that CNI_VERSION_URL names, or "". Machines know the
// archive by its name.
func plugins(env func(string) string) string {
	u, err := url.Parse(env(pluginsURL))
	if err != nil || u.Host == "" || !strings.HasPrefix(path.Base(u.Path), "cni-plugins") {
		return ""
	}
	return env(pluginsURL)
}

// pluginsDigest returns the hexadecimal SHA-256 in CNI_ASSET_HASH_STRING, or "".
func pluginsDigest(env func(string) string) string {
	sum := strings.TrimPrefix(env(pluginsHash), "sha256:")
	if !download.IsSHA256(sum) {
		return ""
	}
	return sum
}

// Variables of the archive of CNI plugins.
const (
	pluginsURL  = "CNI_VERSION_URL"
	pluginsHash = "CNI_ASSET_HASH_STRING"
)

// FileHashes is the environment variable with the digests of files that replace the
// publishers' files on machines.
const FileHashes = "KOPS_FILE_HASHES"

// each converts a list of values to a list of an interface that they implement.
func each[I, T any](list []T) []I {
	out := make([]I, len(list))
	for i := range list {
		out[i] = any(list[i]).(I)
	}
	return out
}

// Client returns an HTTP client that uses a transport, and does not follow redirects
// from https to http. If the transport limits how long a server may take to begin its answer, it
// allows more for requests that wait for something.
func Client(t http.RoundTripper) *http.Client {
	if quick, ok := t.(*http.Transport); ok && quick.ResponseHeaderTimeout > 0 {
		patient := quick.Clone()
		patient.ResponseHeaderTimeout = max(longPoll, quick.ResponseHeaderTimeout)
		t = transports{quick, patient}
	}
	return &http.Client{Transport: t, CheckRedirect: web.KeepTLS}
}

// transports sends requests that wait for something by a transport of their own.
type transports struct{ quick, patient *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t transports) RoundTrip(r *http.Request) (*http.Response, error) {
	if web.IsLongPoll(r.Context()) {
		return t.patient.RoundTrip(r)
	}
	return t.quick.RoundTrip(r)
}

// CloseIdleConnections is called by the method of http.Client.
func (t transports) CloseIdleConnections() {
	t.quick.CloseIdleConnections()
	t.patient.CloseIdleConnections()
}

const (
	// silence is how long a server may take to begin its answer to a complete request.
	silence = 30 * time.Second
	// longPoll is the same for a request that waits for something: up to two minutes.
	longPoll = 150 * time.Second
)

// Transport returns a transport that keeps up to 64 idle connections per server, and waits up to 30
// seconds for the beginning of an answer. It refuses to connect to addresses that web.Dialer
// forbids for URLs from a spec.
func Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = web.Dialer().DialContext
	t.MaxIdleConnsPerHost = 64
	t.ResponseHeaderTimeout = silence
	return t
}

// Bundle returns the folder of files and images for machines of this host: KOPS_BUNDLE, or
// bundle in the cache folder; "" if neither is set.
func Bundle(env func(string) string, cache string) string {
	dir := env("KOPS_BUNDLE")
	if dir == "" && cache != "" {
		dir = filepath.Join(cache, "bundle")
	}
	return platform.Absolute(dir)
}
