package gceapi

import (
	"cmp"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"cloud.google.com/go/auth"
	"golang.org/x/oauth2"

	"kops.local/kops/internal/engine/fault"
)

// Sources of the reasons: "Troubleshooting API requests" and "Troubleshooting resource availability"
// of Compute Engine, "Standardized error responses" of Cloud APIs, the page "Errors" of google.api.ErrorReason.

const (
	remedyCredentials = "log in (gcloud auth application-default login), or set GOOGLE_APPLICATION_CREDENTIALS to the file of an account's key"
	remedyName        = "something that this cluster does not own has the name: remove it, or choose another name"
	remedyGone        = "check the name in the cluster's spec"
	remedyCapacity    = "Google has no capacity for this now; choose another zone or machine type, or try later"
	remedyBilling     = "link the project to a billing account"
)

// request is what was asked of a service.
type request struct{ method, host, path, project string }

// reads reports whether the request changes nothing.
func (r request) reads() bool {
	last := r.path[strings.LastIndexAny(r.path, "/:")+1:]
	return r.method == http.MethodGet || last == "wait" || last == "getIamPolicy" || strings.HasPrefix(last, "list")
}

// classed gives an answer its class.
func classed(r request, e *Error) error {
	c, remedy := classify(r, e)
	return fault.Wrap(c, e, remedy)
}

// classify knows the reasons first, then what HTTP says.
func classify(r request, e *Error) (fault.Class, string) {
	reason := plain(e.Reason)
	switch reason {
	case "ratelimitexceeded", "userratelimitexceeded", "resourceoperationrateexceeded", "concurrentlimitexceeded", "toomanyrequests":
		return fault.Throttled, ""
	case "resourceinusebyanotherresource", "resourceinuse", "conditionnotmet", "concurrentoperationconflict", "operationconflict",
		"fingerprintmismatch", "aborted", "conflict", "conditionfailed", "failedprecondition":
		if e.Status != http.StatusBadRequest || strings.HasPrefix(reason, "resourceinuse") {
			return fault.Conflict, ""
		}
	case "resourcenotready", "resourceisnotready":
		return fault.NotYet, ""
	case "alreadyexists", "resourcealreadyexists":
		return fault.Taken, remedyName
	case "quotaexceeded", "limitexceeded", "resourcelimitexceeded":
		return fault.Quota, e.quotaRemedy()
	case "accessnotconfigured", "servicedisabled":
		return fault.Denied, r.enable(e)
	case "billingnotenabled", "billingdisabled", "ureqprojectbillingnotfound":
		return fault.Denied, remedyBilling
	case "notfound", "resourcenotfound":
		return r.missing(e)
	case "internalerror", "timeout":
		return fault.Lost, ""
	}
	if strings.HasPrefix(reason, "zoneresourcepoolexhausted") || strings.HasPrefix(reason, "stockout") || reason == "resourcepoolexhausted" {
		return fault.Quota, remedyCapacity
	}
	if accountUnknown(e) {
		return fault.NotYet, "check that the service account exists"
	}
	return r.byStatus(e)
}

func (r request) byStatus(e *Error) (fault.Class, string) {
	switch {
	case e.Status == http.StatusUnauthorized:
		return fault.Denied, remedyCredentials
	case e.Status == http.StatusForbidden && plain(e.Details["reason"]) == "servicedisabled":
		return fault.Denied, r.enable(e)
	case e.Status == http.StatusForbidden:
		return fault.Denied, e.permission(r)
	case e.Status == http.StatusNotFound:
		return r.missing(e)
	case e.Status == http.StatusConflict, e.Status == http.StatusPreconditionFailed:
		return fault.Conflict, ""
	case e.Status == http.StatusTooManyRequests && strings.HasPrefix(e.Message, "Maximum number of"): // IAM's word for a quota is that for a rate
		return fault.Quota, e.quotaRemedy()
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusServiceUnavailable && r.reads():
		return fault.Throttled, ""
	case e.Status == http.StatusNotImplemented:
		return fault.Permanent, ""
	case e.Status >= 500: // a write may have taken effect
		return fault.Lost, ""
	}
	return fault.Permanent, ""
}

// missing is the class of what does not exist: the object that is asked for, or another
// one that it refers to.
func (r request) missing(e *Error) (fault.Class, string) {
	if accountUnknown(e) && !r.reads() && r.method != http.MethodDelete {
		return fault.NotYet, "check that the service account exists"
	}
	if r.reads() || r.method == http.MethodDelete {
		return fault.Gone, ""
	}
	return fault.Gone, remedyGone
}

// accountUnknown reports whether a service account that was just made, or is gone, is not known to
// the service that should let it in. The reasons are the same as for any bad value; only the
// message tells.
func accountUnknown(e *Error) bool {
	text := strings.ToLower(e.Message)
	return e.Status == http.StatusBadRequest && strings.Contains(text, "service account") &&
		(strings.Contains(text, "does not exist") || strings.Contains(text, "not found") || strings.Contains(text, "not available"))
}

// enable says which API the project must have.
func (r request) enable(e *Error) string {
	service := cmp.Or(e.Details["service"], r.host)
	return "enable the API " + service + " (gcloud services enable " + service + " --project " + r.project + ")"
}

var permissions = []*regexp.Regexp{
	regexp.MustCompile(`[Pp]ermission '([\w.]+)'`),              // IAM, Compute Engine for some methods
	regexp.MustCompile(`'([\w.]+)' permission`),                 // Compute Engine
	regexp.MustCompile(`does not have ([\w.]+\.[\w.]+) access`), // Cloud Storage
}

// permission says what the caller must be allowed to do.
func (e *Error) permission(r request) string {
	name := e.Details["permission"]
	if _, verb, ok := strings.Cut(r.path, ":"); ok && strings.Contains(r.path, "/projects/") && strings.HasSuffix(verb, "IamPolicy") && !strings.Contains(verb, "/") && name == "" {
		name = "resourcemanager.projects." + verb // Resource Manager does not tell
	}
	for _, p := range permissions {
		if m := p.FindStringSubmatch(e.Message); m != nil && name == "" {
			name = m[1]
		}
	}
	if name == "" {
		return "give the caller a role that allows this"
	}
	return "give the caller a role with the permission " + name
}

var quotaName = regexp.MustCompile(`Quota '([^']+)' exceeded`)

// quotaRemedy names the limit as the page Quotas does.
func (e *Error) quotaRemedy() string {
	name := cmp.Or(e.Details["metricName"], e.Details["quota_metric"])
	if m := quotaName.FindStringSubmatch(e.Message); m != nil {
		name = m[1]
	}
	if name == "" {
		return "ask for a higher limit on the page Quotas & System Limits, or remove resources that you no longer need"
	}
	if limit := e.Details["limit"]; limit != "" {
		name += ", now " + limit
	}
	return "ask for a higher limit of " + name + " on the page Quotas & System Limits, or remove resources that you no longer need"
}

// noCredentials reports whether Google's server of tokens refused the credentials.
func noCredentials(err error) bool {
	var older *oauth2.RetrieveError
	var newer *auth.Error
	return errors.As(err, &older) || errors.As(err, &newer) && !newer.Temporary()
}
