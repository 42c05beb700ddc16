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

// Sources of the reasons: Compute Engine, "Troubleshooting API requests" and "Troubleshooting
// resource availability"; Cloud APIs, "Standardized error responses" and the page "Errors" of
// google.api.ErrorReason.

const (
	remedyCredentials = "log in (gcloud auth application-default login), or set GOOGLE_APPLICATION_CREDENTIALS to a service account key file"
	remedyName        = "a resource that does not belong to this cluster already has this name: delete it, or choose another name"
	remedyGone        = "check the name in the cluster's spec"
	remedyCapacity    = "Google Cloud has no capacity for this at the moment; choose another zone or machine type, or try again later"
	remedyBilling     = "link the project to a billing account"
)

// request is a request to a service.
type request struct{ method, host, path, project string }

// isRead reports whether the request changes nothing.
func (r request) isRead() bool {
	last := r.path[strings.LastIndexAny(r.path, "/:")+1:]
	return r.method == http.MethodGet || last == "wait" || last == "getIamPolicy" || strings.HasPrefix(last, "list")
}

// classifyError gives an error response its class.
func classifyError(r request, e *Error) error {
	c, remedy := classify(r, e)
	return fault.Wrap(c, e, remedy)
}

// classify returns the class and the remedy, first by reason, then by HTTP status.
func classify(r request, e *Error) (fault.Class, string) {
	reason := normalizeReason(e.Reason)
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
		return fault.Denied, r.enableRemedy(e)
	case "billingnotenabled", "billingdisabled", "ureqprojectbillingnotfound":
		return fault.Denied, remedyBilling
	case "notfound", "resourcenotfound":
		return r.missingClass(e)
	case "internalerror", "timeout":
		return fault.Lost, ""
	}
	if strings.HasPrefix(reason, "zoneresourcepoolexhausted") || strings.HasPrefix(reason, "stockout") || reason == "resourcepoolexhausted" {
		return fault.Quota, remedyCapacity
	}
	if isAccountUnknown(e) {
		return fault.NotYet, "check that the service account exists"
	}
	return r.classByStatus(e)
}

func (r request) classByStatus(e *Error) (fault.Class, string) {
	switch {
	case e.Status == http.StatusUnauthorized:
		return fault.Denied, remedyCredentials
	case e.Status == http.StatusForbidden && normalizeReason(e.Details["reason"]) == "servicedisabled":
		return fault.Denied, r.enableRemedy(e)
	case e.Status == http.StatusForbidden:
		return fault.Denied, e.missingPermission(r)
	case e.Status == http.StatusNotFound:
		return r.missingClass(e)
	case e.Status == http.StatusConflict, e.Status == http.StatusPreconditionFailed:
		return fault.Conflict, ""
	case e.Status == http.StatusTooManyRequests && strings.HasPrefix(e.Message, "Maximum number of"): // IAM uses the status of a rate limit for a quota
		return fault.Quota, e.quotaRemedy()
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusServiceUnavailable && r.isRead():
		return fault.Throttled, ""
	case e.Status == http.StatusNotImplemented:
		return fault.Permanent, ""
	case e.Status >= 500: // a write may have taken effect
		return fault.Lost, ""
	}
	return fault.Permanent, ""
}

// missingClass returns the class for an object that does not exist: the requested one, or another to
// which it refers.
func (r request) missingClass(e *Error) (fault.Class, string) {
	if isAccountUnknown(e) && !r.isRead() && r.method != http.MethodDelete {
		return fault.NotYet, "check that the service account exists"
	}
	if r.isRead() || r.method == http.MethodDelete {
		return fault.Gone, ""
	}
	return fault.Gone, remedyGone
}

// isAccountUnknown reports whether the service that is to grant access does not know a service
// account, because it is new or deleted. The reason is the same as for any invalid value; only the
// message differs.
func isAccountUnknown(e *Error) bool {
	text := strings.ToLower(e.Message)
	return e.Status == http.StatusBadRequest && strings.Contains(text, "service account") &&
		(strings.Contains(text, "does not exist") || strings.Contains(text, "not found") || strings.Contains(text, "not available"))
}

// enableRemedy returns the remedy that names the API to enable in the project.
func (r request) enableRemedy(e *Error) string {
	service := cmp.Or(e.Details["service"], r.host)
	return "enable the API " + service + " (gcloud services enable " + service + " --project " + r.project + ")"
}

var permissions = []*regexp.Regexp{
	regexp.MustCompile(`[Pp]ermission '([\w.]+)'`),              // IAM, Compute Engine for some methods
	regexp.MustCompile(`'([\w.]+)' permission`),                 // Compute Engine
	regexp.MustCompile(`does not have ([\w.]+\.[\w.]+) access`), // Cloud Storage
}

// missingPermission returns the remedy that names the missing permission.
func (e *Error) missingPermission(r request) string {
	name := e.Details["permission"]
	if _, verb, ok := strings.Cut(r.path, ":"); ok && strings.Contains(r.path, "/projects/") && strings.HasSuffix(verb, "IamPolicy") && !strings.Contains(verb, "/") && name == "" {
		name = "resourcemanager.projects." + verb // Resource Manager does not return it
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

// quotaRemedy returns the remedy, with the quota's name as on the Quotas page.
func (e *Error) quotaRemedy() string {
	name := cmp.Or(e.Details["metricName"], e.Details["quota_metric"])
	if m := quotaName.FindStringSubmatch(e.Message); m != nil {
		name = m[1]
	}
	if name == "" {
		return "request a higher limit on the page Quotas & System Limits, or delete resources that you no longer need"
	}
	if limit := e.Details["limit"]; limit != "" {
		name += ", now " + limit
	}
	return "request a higher limit of " + name + " on the page Quotas & System Limits, or delete resources that you no longer need"
}

// noCredentials reports whether Google's token server rejected the credentials.
func noCredentials(err error) bool {
	var older *oauth2.RetrieveError
	var newer *auth.Error
	return errors.As(err, &older) || errors.As(err, &newer) && !newer.Temporary()
}
