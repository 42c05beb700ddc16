package emulator

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"kops.local/kops/internal/platform/gce/emulator/description"
	"kops.local/kops/internal/standin"
)

// Error is an error response, or the error of an operation.
type Error struct {
	// Status is the HTTP status. Reason is Google's reason, such as notFound; the code of an
	// operation's error, such as QUOTA_EXCEEDED, is derived from it.
	Status  int
	Reason  string
	Message string
	// Domain is the error's domain; empty: global.
	Domain string
}

func (e Error) Error() string { return e.Message }

func refusal(status int, reason, format string, args ...any) *Error {
	return &Error{Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func invalid(field string, value any, why string) *Error {
	return refusal(http.StatusBadRequest, "invalid", "Invalid value for field '%s': '%v'. %s", field, value, why)
}

func notFound(path string) *Error {
	return refusal(http.StatusNotFound, "notFound", "The resource '%s' was not found", path)
}

func notReady(path string) *Error {
	return refusal(http.StatusBadRequest, "resourceNotReady", "The resource '%s' is not ready", path)
}

// staleError returns the error for an object that was changed since it was read.
func staleError(what string) *Error {
	return refusal(http.StatusPreconditionFailed, "conditionNotMet", "%s", what)
}

// refusalOf converts an error to an error response.
func refusalOf(err error) *Error {
	switch x := err.(type) { //nolint:errorlint // nothing of this package wraps these
	case *Error:
		return x
	case Error: // of a fault
		return &x
	case *description.Problem:
		return refusal(http.StatusBadRequest, x.Reason, "%s", x.Text)
	}
	return refusal(http.StatusInternalServerError, "internalError", "%v", err)
}

// statuses are the names of google.rpc.Code for HTTP statuses.
var statuses = map[int]string{400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ALREADY_EXISTS", 412: "FAILED_PRECONDITION",
	429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 501: "UNIMPLEMENTED", 503: "UNAVAILABLE"}

// refuse returns the response for an error.
func refuse(err error) standin.Answer {
	e := refusalOf(err)
	return standin.Answer{Status: e.Status, Body: e.body()}
}

// body returns the error in the form of Google's APIs.
func (e *Error) body() object {
	domain := e.Domain
	if domain == "" {
		domain = "global"
	}
	out := object{"code": e.Status, "message": e.Message, "errors": list{object{"message": e.Message, "domain": domain, "reason": e.Reason}}}
	if status := statuses[e.Status]; status != "" && (e.Status != http.StatusConflict || e.Reason == "alreadyExists") {
		out["status"] = status
	} else if e.Status == http.StatusConflict {
		out["status"] = "ABORTED"
	}
	return object{"error": out}
}

// code returns the reason as operations write it: alreadyExists becomes RESOURCE_ALREADY_EXISTS; a
// code is returned unchanged.
func (e *Error) code() string {
	if e.Reason == strings.ToUpper(e.Reason) {
		return e.Reason
	}
	special := map[string]string{"notFound": "RESOURCE_NOT_FOUND", "alreadyExists": "RESOURCE_ALREADY_EXISTS", "invalid": "INVALID_USAGE", "conditionNotMet": "CONDITION_NOT_MET"}
	if s := special[e.Reason]; s != "" {
		return s
	}
	var out strings.Builder
	for _, r := range e.Reason {
		if r >= 'A' && r <= 'Z' {
			out.WriteByte('_')
		}
		out.WriteRune(r)
	}
	return strings.ToUpper(out.String())
}

// Moment is when a fault takes effect; Fault is an injected failure, whose Error is an Error.
type (
	Moment = standin.Moment
	Fault  = standin.Fault
)

// The moments of a fault, as in package standin.
const (
	Before = standin.Before
	After  = standin.After
	Lost   = standin.Lost
	Inside = standin.Inside
)

// readers are POSTs that change nothing.
var readers = []string{"wait", "listManagedInstances", "listInstances", "getHealth", "getIamPolicy", "testIamPermissions", "listErrors"}

// isWrite reports whether a method changes anything.
func isWrite(m *description.Method) bool {
	return m.Verb != http.MethodGet && !slices.Contains(readers, lastPart(m.ID, "."))
}
