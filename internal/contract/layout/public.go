package layout

import (
	"regexp"
	"strings"
)

// Public is the remedy that lists stores with public access.
const Public = "use a bucket of S3 (s3://…) or of Google Cloud Storage (gs://…)"

// web returns the forms of addresses of public stores, and the corresponding store URLs.
func web() []struct {
	form *regexp.Regexp
	url  string
} {
	return []struct {
		form *regexp.Regexp
		url  string
	}{
		{regexp.MustCompile(`^https://([^/]+)\.s3(?:\.dualstack)?[.-][a-z0-9-]+\.amazonaws\.com(?:\.cn)?(/.*)?$`), "s3://$1$2"},
		{regexp.MustCompile(`^https://([^/]+)\.s3\.amazonaws\.com(/.*)?$`), "s3://$1$2"},
		{regexp.MustCompile(`^https://s3(?:\.dualstack)?(?:[.-][a-z0-9-]+)?\.amazonaws\.com(?:\.cn)?/([^/]+)(/.*)?$`), "s3://$1$2"},
		{regexp.MustCompile(`^https://storage\.googleapis\.com/([^/]+)(/.*)?$`), "gs://$1$2"},
		{regexp.MustCompile(`^https://([^/]+)\.storage\.googleapis\.com(/.*)?$`), "gs://$1$2"},
	}
}

// StoreURL returns the URL of the store whose contents are at a web address; the URL of a store is
// returned unchanged. ok is false for other web servers. endpoint is the URL of an S3 server other
// than Amazon's, or "".
func StoreURL(address, endpoint string) (store string, ok bool) {
	address = strings.TrimSuffix(address, "/")
	if scheme, _, _ := strings.Cut(address, "://"); scheme != "https" && scheme != "http" {
		return address, true
	}
	if endpoint != "" && !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	if rest, ours := strings.CutPrefix(address, strings.TrimSuffix(endpoint, "/")+"/"); ours && endpoint != "" {
		return "s3://" + rest, true
	}
	for _, w := range web() {
		if w.form.MatchString(address) {
			return w.form.ReplaceAllString(address, w.url), true
		}
	}
	return "", false
}

// Servers are the settings, apart from the places themselves, on which public URLs depend.
type Servers struct {
	// Region is the region of the S3 bucket.
	Region string
	// IPv6 selects an address of S3 that also has IPv6.
	IPv6 bool
	// Endpoint is the server of S3 buckets that are not Amazon's, a host or a URL; empty if they
	// are Amazon's.
	Endpoint string
}

// PublicURL returns the URL at which everyone can read a place in a store. Verifiers of tokens only
// use TLS, so it is always an https:// URL. ok is false for a store that cannot be read without
// credentials.
func PublicURL(store string, at Servers) (url string, ok bool) {
	scheme, place, _ := strings.Cut(strings.TrimSuffix(store, "/"), "://")
	switch scheme {
	case "s3":
		if at.Endpoint != "" {
			_, host, found := strings.Cut(at.Endpoint, "://")
			if !found {
				host = at.Endpoint
			}
			return "https://" + strings.TrimSuffix(host, "/") + "/" + place, true
		}
		host := ".s3." + at.Region + ".amazonaws.com/"
		if at.IPv6 {
			host = ".s3.dualstack." + at.Region + ".amazonaws.com/"
		}
		bucket, key, _ := strings.Cut(place, "/")
		return "https://" + bucket + host + key, true
	case "gs":
		return "https://storage.googleapis.com/" + place, true
	case "memfs":
		return "https://" + place, true
	}
	return "", false
}
