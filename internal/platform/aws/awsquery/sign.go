package awsquery

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Credentials are a machine's role's or a user's; Token is empty for long-term credentials.
type Credentials struct{ ID, Secret, Token string }

// Scope is where a signature is valid: a region, and a service in it.
type Scope struct{ Region, Service string }

// Sign adds the AWS Signature Version 4 of a POST request to h: body is sent to a URL without a
// query. The signature covers the host and all headers, each of which has one value.
func Sign(h http.Header, to *url.URL, body string, s Scope, c Credentials, now time.Time) {
	now = now.UTC()
	h.Set("X-Amz-Date", now.Format("20060102T150405Z"))
	if c.Token != "" {
		h.Set("X-Amz-Security-Token", c.Token)
	}
	values := map[string]string{"host": to.Host}
	names := []string{"host"}
	for k := range h {
		name := strings.ToLower(k)
		names, values[name] = append(names, name), h.Get(k)
	}
	slices.Sort(names)
	path := strings.ReplaceAll(url.QueryEscape(cmp.Or(to.EscapedPath(), "/")), "%2F", "/") // escaped once more than in the request
	canonical := "POST\n" + path + "\n\n"
	for _, n := range names {
		canonical += n + ":" + strings.TrimSpace(values[n]) + "\n"
	}
	signed := strings.Join(names, ";")
	canonical += "\n" + signed + "\n" + hexSum(body)
	scope := now.Format("20060102") + "/" + s.Region + "/" + s.Service + "/aws4_request"
	text := "AWS4-HMAC-SHA256\n" + h.Get("X-Amz-Date") + "\n" + scope + "\n" + hexSum(canonical)
	key := []byte("AWS4" + c.Secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	h.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+c.ID+"/"+scope+", SignedHeaders="+signed+", Signature="+hex.EncodeToString(mac(key, text)))
}

// Endpoint returns the URL of a service in a region. Each AWS partition has its own domain (AWS
// SDKs, partitions.json).
func Endpoint(service, region string) string {
	domain := "amazonaws.com"
	for _, p := range []struct{ begins, domain string }{
		{"cn-", "amazonaws.com.cn"}, {"us-iso-", "c2s.ic.gov"}, {"us-isob-", "sc2s.sgov.gov"}, {"us-isof-", "csp.hci.ic.gov"},
		{"eu-isoe-", "cloud.adc-e.uk"}, {"eusc-", "amazonaws.eu"},
	} {
		if strings.HasPrefix(region, p.begins) {
			domain = p.domain
		}
	}
	return "https://" + service + "." + region + "." + domain + "/"
}

func hexSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	_, _ = m.Write([]byte(text)) // a hash never fails
	return m.Sum(nil)
}
