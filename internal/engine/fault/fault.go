// Package fault classifies errors: whether a failed operation can succeed later, and if not, what
// kind of obstacle there is.
//
// It must not know what failed. A cloud or a store classifies its own errors, once, where they
// enter the program; everything above only checks the class.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Class is what an error means for a retry.
type Class string

const (
	// Permanent errors recur at every attempt: a bad request, an unknown field.
	Permanent Class = "permanent"
	// Denied means that the caller has no permission.
	Denied Class = "denied"
	// Quota means that a limit of the account was reached.
	Quota Class = "quota"
	// Throttled means that the caller sent too many requests; a later attempt may succeed.
	Throttled Class = "throttled"
	// NotYet means that something the operation needs is not ready.
	NotYet Class = "not yet"
	// Conflict means that another writer, or something still in use, was in the way.
	Conflict Class = "conflict"
	// Taken means that an object with the name already exists.
	Taken Class = "taken"
	// Gone means that the object does not exist.
	Gone Class = "gone"
	// Lost means that the response did not arrive: whether the operation took effect is unknown
	// until the next observation.
	Lost Class = "lost"
)

// Retryable reports whether an error of this class may go away by itself.
func (c Class) Retryable() bool { return c == Throttled || c == NotYet || c == Conflict }

// Error is an error with its class and, if known, a remedy for the user.
type Error struct {
	Class  Class
	Remedy string // a sentence that tells the user what to do; may be empty
	// After is how long the server asks to wait before the next attempt; 0 if it does not say.
	After time.Duration
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the classed error's cause.
func (e *Error) Unwrap() error { return e.Err }

// New returns an error with the class.
func New(c Class, format string, args ...any) error {
	return &Error{Class: c, Err: fmt.Errorf(format, args...)}
}

// Wrap gives err a class and a remedy. A nil err stays nil.
func Wrap(c Class, err error, remedy string) error {
	if err == nil {
		return nil
	}
	return &Error{Class: c, Remedy: remedy, Err: err}
}

// Of returns the class of the outermost classed error in the chain. An error
// that was never classed is Permanent; nil has the empty class.
func Of(err error) Class {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return Permanent
}

// Is reports whether err has the class.
func Is(err error, c Class) bool { return err != nil && Of(err) == c }

// After returns how long the outermost classed error in the chain asks to wait before the next
// attempt, or 0.
func After(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.After
	}
	return 0
}

// IgnoreGone returns err, or nil if it means that the object does not exist, which is what a
// deletion wants.
func IgnoreGone(err error) error {
	if Is(err, Gone) {
		return nil
	}
	return err
}

// Remedy returns the remedy of the outermost error in the chain that has one.
func Remedy(err error) string {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.Remedy != "" {
			return e.Remedy
		}
		err = e.Err
	}
	return ""
}
