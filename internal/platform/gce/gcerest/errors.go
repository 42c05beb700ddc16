package gcerest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"kops.local/kops/internal/engine/fault"
)

// Error is an error response from Google, or the error of a failed operation.
type Error struct {
	// Status is the HTTP status; for an operation, the status that it has for its error, or 0.
	Status int
	// Reason is Google's code for the error: notFound in a response, RESOURCE_NOT_FOUND in an
	// operation; "" if there is none.
	Reason  string
	Message string
}

func (e *Error) Error() string {
	text := cmp.Or(e.Message, "no reason given")
	if e.Reason != "" {
		text = e.Reason + ": " + text
	}
	if e.Status != 0 {
		text = strconv.Itoa(e.Status) + " " + http.StatusText(e.Status) + ": " + text
	}
	return text
}

// newError parses a response other than 2xx.
func newError(status int, text []byte) *Error {
	var x struct {
		Error struct {
			Message string `json:"message"`
			Errors  []struct {
				Reason  string `json:"reason"`
				Message string `json:"message"`
			} `json:"errors"`
		} `json:"error"`
	}
	if err := json.Unmarshal(text, &x); err != nil {
		return &Error{Status: status}
	}
	e := &Error{Status: status, Message: x.Error.Message}
	if len(x.Error.Errors) > 0 {
		e.Reason = x.Error.Errors[0].Reason
		e.Message = cmp.Or(e.Message, x.Error.Errors[0].Message)
	}
	return e
}

// faultClass returns the class of an error, which is the same for every call (Compute Engine, "Handle
// API errors"; the codes of operations are from its "Troubleshooting" pages).
func (e *Error) faultClass() fault.Class {
	is := func(reasons ...string) bool { return slices.Contains(reasons, e.Reason) }
	switch {
	case e.Status == http.StatusTooManyRequests || is("rateLimitExceeded", "userRateLimitExceeded", "concurrentLimitExceeded", "RATE_LIMIT_EXCEEDED", "RESOURCE_OPERATION_RATE_EXCEEDED"):
		return fault.Throttled
	case is("quotaExceeded", "dailyLimitExceeded", "limitExceeded", "QUOTA_EXCEEDED", "LIMIT_EXCEEDED"):
		return fault.Quota
	case is("resourceInUseByAnotherResource", "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE") || e.Status == http.StatusConflict || e.Status == http.StatusPreconditionFailed || is("RESOURCE_ALREADY_EXISTS", "CONDITION_NOT_MET"):
		return fault.Conflict
	case is("resourceNotReady", "RESOURCE_NOT_READY", "ZONE_RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "INTERNAL_ERROR") || e.Status >= http.StatusInternalServerError:
		return fault.NotYet
	case e.Status == http.StatusNotFound || is("RESOURCE_NOT_FOUND"):
		return fault.Gone
	case e.Status == http.StatusForbidden || is("PERMISSIONS_ERROR"):
		return fault.Denied
	case e.Status == http.StatusUnauthorized: // a new service account, or an expired token
		return fault.NotYet
	}
	return fault.Permanent
}

func (e *Error) remedy() string {
	switch {
	case e.Reason == "accessNotConfigured":
		return "enable the API in the project: gcloud services enable compute.googleapis.com dns.googleapis.com"
	case e.Reason == "insufficientPermissions" || e.Reason == "ACCESS_TOKEN_SCOPE_INSUFFICIENT":
		return "add it to the access scopes of the machine: run kops update cluster --yes, and replace the machine"
	case e.faultClass() == fault.Denied:
		return "give the machine's service account a role that allows it"
	case e.faultClass() == fault.Quota:
		return "raise the quota, or use less of it"
	}
	return ""
}
