package awstest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"kops.local/kops/internal/test/proxy"
)

// protocol is how a service encodes requests and errors.
type protocol int

const (
	s3Protocol  protocol = iota // REST with XML, errors in S3's format
	restXML                     // REST with XML: Route 53
	ec2Query                    // form in, XML out, errors in EC2's format
	query                       // form in, XML out
	jsonTarget                  // JSON, the action in X-Amz-Target
	smithyRoute                 // the action in the path: /service/S/operation/A
)

// call identifies what a request does.
type call struct {
	service  string // as in a signature: ec2, s3, elasticloadbalancing
	action   string // as in the API's reference: DescribeVpcs, PutObject
	protocol protocol
}

// Proxy starts a proxy in front of a server that emulates AWS, for as long as the test runs.
func Proxy(t testing.TB, target string) *proxy.Proxy {
	return proxy.New(t, target, Dialect)
}

// Dialect is the dialect of AWS, and of other servers with S3's API.
func Dialect(r *http.Request, body []byte) proxy.Call {
	c := identify(r, body)
	return proxy.Call{Name: c.service + "." + c.action, Write: c.isWrite(), Lags: c.mayLag(), Refused: c.refusal}
}

// mayLag reports whether answers may be out of date. S3's are not: its listings are consistent with
// its writes (Amazon S3 user guide, "data consistency model").
func (c call) mayLag() bool {
	return c.service != "s3" && (strings.HasPrefix(c.action, "Describe") || strings.HasPrefix(c.action, "List"))
}

// isWrite reports whether the call changes something.
func (c call) isWrite() bool {
	for _, reads := range []string{"Describe", "Get", "List", "Head", "Search", "Lookup", "Simulate", "AssumeRole", "Decode", "Test", "Receive"} {
		if strings.HasPrefix(c.action, reads) {
			return false
		}
	}
	return true
}

// identify returns the service and action of a request. The service is named in the signature; a
// request without a signature is for S3.
func identify(r *http.Request, body []byte) call {
	c := call{service: signedService(r.Header.Get("Authorization"))}
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		c.action, c.protocol = target[strings.LastIndexByte(target, '.')+1:], jsonTarget
		return c
	}
	if _, action, ok := strings.Cut(r.URL.Path, "/operation/"); ok && strings.HasPrefix(r.URL.Path, "/service/") {
		c.action, c.protocol = action, smithyRoute
		return c
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		form, _ := url.ParseQuery(string(body)) // an unparseable request has no action
		c.action, c.protocol = form.Get("Action"), query
		if c.service == "ec2" {
			c.protocol = ec2Query
		}
		return c
	}
	if c.service == "route53" {
		c.action, c.protocol = route53Action(r), restXML
		return c
	}
	c.service, c.action = "s3", s3Action(r)
	return c
}

// signedService returns the service in the scope of a version 4 signature:
// Credential=KEY/20260102/us-east-1/ec2/aws4_request.
func signedService(authorization string) string {
	_, rest, _ := strings.Cut(authorization, "Credential=")
	scope, _, _ := strings.Cut(rest, ",")
	if parts := strings.Split(scope, "/"); len(parts) == 5 {
		return parts[3]
	}
	return ""
}

// s3Action returns the action of a path-style request: /bucket/key?subresource.
func s3Action(r *http.Request) string {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	q := r.URL.Query()
	if bucket == "" {
		return "ListBuckets"
	}
	on := "Object"
	if key == "" {
		on = "Bucket"
	}
	verb := map[string]string{"GET": "Get", "HEAD": "Head", "PUT": "Put", "POST": "Post", "DELETE": "Delete"}[r.Method]
	for _, sub := range []string{"acl", "encryption", "location", "lifecycle", "ownershipControls", "policy", "policyStatus", "publicAccessBlock", "tagging", "versioning"} {
		if q.Has(sub) {
			return verb + on + strings.ToUpper(sub[:1]) + sub[1:]
		}
	}
	switch {
	case q.Has("delete"):
		return "DeleteObjects"
	case q.Has("versions"):
		return "ListObjectVersions"
	case on == "Object":
		return verb + on
	case verb == "Get" && q.Get("list-type") == "2":
		return "ListObjectsV2"
	case verb == "Get":
		return "ListObjects"
	case verb == "Put":
		return "CreateBucket"
	}
	return verb + on
}

// route53Action returns the action of a request such as GET /2013-04-01/hostedzone/ID/rrset.
func route53Action(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")[1:]
	if len(parts) == 0 {
		return r.Method
	}
	shape := r.Method + " " + parts[0]
	if len(parts) > 1 {
		shape += "/ID"
	}
	if len(parts) > 2 {
		shape += "/" + parts[2]
	}
	names := map[string]string{
		"GET hostedzone":                     "ListHostedZones",
		"POST hostedzone":                    "CreateHostedZone",
		"GET hostedzone/ID":                  "GetHostedZone",
		"DELETE hostedzone/ID":               "DeleteHostedZone",
		"GET hostedzonesbyname":              "ListHostedZonesByName",
		"GET hostedzonesbyvpc":               "ListHostedZonesByVPC",
		"GET hostedzone/ID/rrset":            "ListResourceRecordSets",
		"POST hostedzone/ID/rrset":           "ChangeResourceRecordSets",
		"POST hostedzone/ID/associatevpc":    "AssociateVPCWithHostedZone",
		"POST hostedzone/ID/disassociatevpc": "DisassociateVPCFromHostedZone",
		"GET change/ID":                      "GetChange",
	}
	if name := names[shape]; name != "" {
		return name
	}
	if parts[0] == "tags" {
		return map[string]string{"GET": "ListTagsForResource", "POST": "ChangeTagsForResource"}[r.Method]
	}
	return shape
}
