package gce

import (
	"net/http"
	"regexp"
	"strings"

	"kops.local/kops/internal/test/proxy"
)

// reading matches the POST calls that only read.
var reading = regexp.MustCompile(`listManagedInstances|/wait$|:getIamPolicy|getHealth|/token$`)

// dialect names the call that a request makes: the last words of its path that name a type of object.
func dialect(r *http.Request, _ []byte) proxy.Call {
	c := proxy.Call{Name: strings.ToLower(r.Method) + " " + sort(r.URL.Path), Refused: func(proxy.Refusal) proxy.Answer { return throttled() }}
	c.Write = r.Method != http.MethodGet && !reading.MatchString(r.URL.Path)
	return c
}

// sort returns a path without the names of objects: /compute/v1/…/zones/disks.
func sort(path string) string {
	var out []string
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, p := range parts {
		if names := i > 0 && containers[parts[i-1]]; !names {
			out = append(out, p)
		}
	}
	return strings.Join(out, "/")
}

// containers are the words of a path after which an object's name comes.
var containers = words(`projects zones regions b o managedZones serviceAccounts networks subnetworks firewalls routers addresses forwardingRules backendServices
healthChecks httpHealthChecks targetPools disks instances instanceGroupManagers instanceTemplates operations routes machineTypes images family`)

func words(text string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(text) {
		out[w] = true
	}
	return out
}

// throttled is Google's response to too many requests (Compute Engine, "API rate quotas").
func throttled() proxy.Answer {
	return proxy.Answer{Status: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}},
		Body: []byte(`{"error":{"code":403,"message":"Quota exceeded for quota metric 'Queries' and limit 'Queries per minute'","errors":[{"domain":"usageLimits","reason":"rateLimitExceeded","message":"Rate Limit Exceeded"}]}}`)}
}
