package emulator

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"kops.local/kops/internal/platform/gce/emulator/description"
)

// Error is an answer that refuses, or what an operation ended with.
type Error struct {
	// Status is the HTTP status. Reason is Google's word, such as notFound; in operations the
	// code, such as QUOTA_EXCEEDED, is made of it.
	Status  int
	Reason  string
	Message string
	// Domain is of the error; empty: global.
	Domain string
}

func (e *Error) Error() string { return e.Message }

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

// stale is the error for an object that somebody else changed since it was read.
func stale(what string) *Error {
	return refusal(http.StatusPreconditionFailed, "conditionNotMet", "%s", what)
}

// refusalOf is an error as an answer.
func refusalOf(err error) *Error {
	switch x := err.(type) { //nolint:errorlint // nothing of this package wraps these
	case *Error:
		return x
	case *description.Problem:
		return refusal(http.StatusBadRequest, x.Reason, "%s", x.Text)
	}
	return refusal(http.StatusInternalServerError, "internalError", "%v", err)
}

// statuses are the words of google.rpc.Code for what HTTP says.
var statuses = map[int]string{400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ALREADY_EXISTS", 412: "FAILED_PRECONDITION",
	429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 501: "UNIMPLEMENTED", 503: "UNAVAILABLE"}

// body is the error as Google's APIs answer it.
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

// code is the reason as operations spell it: alreadyExists becomes ALREADY_EXISTS, and what
// is a code stays.
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

// Moment is when a fault shows.
type Moment int

// The moments of a fault.
const (
	// Before: the call is refused, and nothing happens.
	Before Moment = iota
	// After: the call takes effect, and the answer is the error all the same.
	After
	// Lost: the call takes effect, and the connection ends without an answer.
	Lost
	// Inside: the call is answered by an operation, and that fails; nothing happens.
	Inside
)

// Fault is something that goes wrong.
type Fault struct {
	// Method is the id of the calls that are meant, such as compute.networks.insert; empty: all
	// that change anything.
	Method string
	// Skip calls go well first, then Times of them fail; 0 means once.
	Skip, Times int
	When        Moment
	// Error is the answer; its zero is 503 backendError.
	Error Error
}

// Inject has a fault happen. Faults are looked at in the order in which they were given,
// and the first that applies is the one.
func (e *Emulator) Inject(f Fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	if f.Error.Status == 0 {
		f.Error = Error{Status: http.StatusServiceUnavailable, Reason: "backendError", Message: "Internal error. Please try again or contact Google Support."}
	}
	e.faults = append(e.faults, &f)
}

// faultOf takes the fault that a call has, or nil.
func (e *Emulator) faultOf(m *description.Method) *Fault {
	for i, f := range e.faults {
		if f.Method != m.ID && (f.Method != "" || !writes(m)) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times--; f.Times == 0 {
			e.faults = slices.Delete(e.faults, i, i+1)
		}
		return f
	}
	return nil
}

// readers are POSTs that change nothing.
var readers = []string{"wait", "listManagedInstances", "listInstances", "getHealth", "getIamPolicy", "testIamPermissions", "listErrors"}

// writes reports that a method changes something.
func writes(m *description.Method) bool {
	return m.Verb != http.MethodGet && !slices.Contains(readers, last(m.ID, "."))
}
