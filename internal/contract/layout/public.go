package layout

import "strings"

// Public says in which stores everybody can read.
const Public = "use a bucket of S3 (s3://…) or of Google Cloud Storage (gs://…)"

// PublicURL is where everybody reads a place in a store. The region is that of a bucket of
// S3, of which the address has IPv6 only where that is asked for. It is not ok for a store
// that cannot be read without credentials.
func PublicURL(store, region string, ipv6 bool) (url string, ok bool) {
	scheme, place, _ := strings.Cut(strings.TrimSuffix(store, "/"), "://")
	switch scheme {
	case "s3":
		host := ".s3." + region + ".amazonaws.com/"
		if ipv6 {
			host = ".s3.dualstack." + region + ".amazonaws.com/"
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
