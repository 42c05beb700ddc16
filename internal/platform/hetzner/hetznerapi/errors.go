package hetznerapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/rest"
)

// Error is an error response, or the error of an action.
type Error struct {
	Status  int    `json:"-"` // of the response; 0 for an action
	Code    string `json:"code"`
	Message string `json:"message"`
	Details struct {
		// Fields are those that are invalid, or not unique.
		Fields []struct {
			Name     string   `json:"name"`
			Messages []string `json:"messages"`
		} `json:"fields"`
		// Limits are those that are reached.
		Limits []struct {
			Name string `json:"name"`
		} `json:"limits"`
		Announcement string `json:"announcement"`
	} `json:"details"`
}

func (e *Error) Error() string {
	var more []string
	for _, f := range e.Details.Fields {
		more = append(more, strings.TrimSuffix(f.Name+": "+strings.Join(f.Messages, ", "), ": "))
	}
	for _, l := range e.Details.Limits {
		more = append(more, l.Name)
	}
	if e.Details.Announcement != "" {
		more = append(more, e.Details.Announcement)
	}
	text := strings.TrimSuffix(e.Message+" ("+strings.Join(more, "; ")+")", " ()")
	return text + " [" + e.Code + "]"
}

// classify returns the error for a response.
func classify(a rest.Answer) error {
	var body struct {
		Error *Error `json:"error"`
	}
	if err := json.Unmarshal(a.Body, &body); err != nil || body.Error == nil || body.Error.Code == "" {
		text := strings.TrimSpace(string(a.Body[:min(len(a.Body), 200)])) // of a proxy
		body.Error = &Error{Code: http.StatusText(a.Status), Message: fmt.Sprintf("response with status %d: %s", a.Status, text)}
	}
	body.Error.Status = a.Status
	return withClass(body.Error)
}

// withClass gives an error its class and the remedy.
func withClass(e *Error) error {
	class, remedy := classOf(e.Code)
	return fault.Wrap(cmp.Or(class, rest.ClassOf(e.Status)), e, remedy)
}

const (
	remedyToken    = "set HCLOUD_TOKEN to an API token of the project, with the permission Read & Write (Hetzner Cloud Console, Security, API tokens)"
	remedyCapacity = "choose another machine type or another location, or try again later"
)

// classOf returns what a code means for a retry (Hetzner Cloud API, "Errors"), and the remedy; the class
// is "" for codes without a meaning of their own.
func classOf(code string) (fault.Class, string) {
	switch code {
	case "unauthorized", "token_readonly", "forbidden":
		return fault.Denied, remedyToken
	case "resource_limit_exceeded":
		return fault.Quota, "request a higher limit (Hetzner Cloud Console, Limits), or delete what is not needed"
	case "resource_unavailable", "placement_error", "no_space_left_in_location":
		return fault.Quota, remedyCapacity
	case "protected":
		return fault.Permanent, "disable the object's protection (hcloud KIND disable-protection NAME delete), or keep it"
	case "not_found", "firewall_resource_not_found":
		return fault.Gone, ""
	case "uniqueness_error":
		return fault.Taken, "delete or rename the other object with the name, or choose another name for the cluster"
	case "rate_limit_exceeded":
		return fault.Throttled, ""
	case "conflict", "locked", "resource_in_use", "volume_already_attached":
		return fault.Conflict, ""
	case "maintenance", "no_subnet_available", "server_not_attached_to_network", "load_balancer_not_attached_to_network":
		return fault.NotYet, ""
	case "ip_not_available":
		return fault.Permanent, "run the command again, without recorded facts: it looks up a free address"
	case "service_error", "server_error", "unavailable", "bad_gateway", "timeout", "unknown_error", "action_failed":
		return fault.Lost, ""
	case "deprecated_api_endpoint":
		return fault.Permanent, "use a newer version of kops"
	}
	return "", ""
}

// IsActionFailed reports whether an error is that of an action, and not of a request.
func IsActionFailed(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == 0
}

// HasCode reports whether an error is the API's, with one of some codes.
func HasCode(err error, codes ...string) bool {
	var e *Error
	return errors.As(err, &e) && slices.Contains(codes, e.Code)
}
