package emulator

import (
	"errors"
	"fmt"
	"net/http"

	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/standin/openapi"
)

// Error is an error response, or the error of an action.
type Error struct {
	// Status is the HTTP status, Code is Hetzner's code, such as not_found.
	Status        int
	Code, Message string
	// Details depend on the code; nil: there are none.
	Details object
}

func (e Error) Error() string { return e.Message }

func refusal(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// unprocessable returns an error of status 422, which most codes have.
func unprocessable(code, format string, args ...any) *Error {
	return refusal(http.StatusUnprocessableEntity, code, format, args...)
}

func invalid(field, format string, args ...any) *Error {
	e := unprocessable("invalid_input", "invalid input in field '%s'", field)
	e.Details = object{"fields": list{object{"name": field, "messages": list{fmt.Sprintf(format, args...)}}}}
	return e
}

func taken(field, format string, args ...any) *Error {
	e := refusal(http.StatusConflict, "uniqueness_error", format, args...)
	e.Details = object{"fields": list{object{"name": field}}}
	return e
}

func locked(e *standin.Entry) *Error {
	if e.Kind == "networks" {
		return refusal(http.StatusConflict, "conflict", "the network %d is being changed", e.ID())
	}
	return refusal(http.StatusLocked, "locked", "%s %d is locked by an action", resources[e.Kind].singular, e.ID())
}

// refusalOf converts an error to an error response.
func refusalOf(err error) *Error {
	var own *Error
	var injected Error
	var problem *openapi.Problem
	var missing *standin.MissingError
	var full *standin.FullError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &injected):
		return &injected
	case errors.As(err, &problem):
		return invalid(problem.Field, "%s", problem.Text)
	case errors.As(err, &missing):
		return invalid(missing.Field, "%s with ID %v was not found", resources[missing.Kind].singular, missing.ID)
	case errors.As(err, &full):
		e := refusal(http.StatusForbidden, "resource_limit_exceeded", "%s limit exceeded", resources[full.Kind].singular)
		e.Details = object{"limits": list{object{"name": resources[full.Kind].singular + "_limit"}}}
		return e
	}
	return refusal(http.StatusInternalServerError, "server_error", "%v", err)
}

// refuse returns the response for an error.
func refuse(err error) standin.Answer {
	e := refusalOf(err)
	return standin.Answer{Status: e.Status, Body: object{"error": object{"code": e.Code, "message": e.Message, "details": e.Details}}}
}
