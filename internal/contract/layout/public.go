package layout

import (
	"regexp"
	"strings"
)

// Public says in which stores everybody can read.
const Public = "use a bucket of S3 (s3://…) or of Google Cloud Storage (gs://…)"

// web are the forms of addresses of public stores, and what they are in a store's URL.
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

// StoreURL returns the URL of the store whose contents web clients find at an address; the URL
// of a store is returned unchanged. It is not ok for other web servers. endpoint is the URL of
// an S3 server other than Amazon's, or "".
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

// Servers are the settings, other than the places, on which the URLs of public places depend.
type Servers struct {
	// Region is the region of the S3 bucket.
	Region string
	// IPv6 asks for an address of S3 that has IPv6, too.
	IPv6 bool
	// Endpoint is the server of buckets of S3 that are not Amazon's, a host or a URL;
	// empty: they are Amazon's.
	Endpoint string
}

// PublicURL is where everybody reads a place in a store. Verifiers of tokens read with TLS
// only, so the URL is always of HTTPS. It is not ok for a store that cannot be read
// without credentials.
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
