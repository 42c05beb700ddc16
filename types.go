package kops

import (
	"encoding/json"
	"errors"
	"fmt"

	"kops.local/kops/api/create"
	"kops.local/kops/api/status"
	"kops.local/kops/finding"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/store"
)

// Backend opens the state stores of some URL schemes: see Folders, Memories, and package
// world. As sets the value that target points to, if that has the internal type.
type Backend interface{ As(target any) bool }

// Provider is a platform: one of package world, or one that package provider defines.
// As sets the value that target points to, if that has the internal type.
type Provider interface{ As(target any) bool }

// Features are the feature flags, by name; true means enabled.
type Features map[string]bool

// NewClusterOptions are the options of `create cluster`.
type NewClusterOptions = create.Options

// Validation reports whether a cluster matches its objects, and its problems; Diagnosis
// adds the reports of its machines and pods.
type (
	Validation = status.Validation
	Diagnosis  = status.Diagnosis
)

// Folders returns the backend of file:///absolute/path and of plain paths.
func Folders() Backend { return store.Folders() }

// Memories returns the backend of memory://name, and of memfs://name. One value opens one store per name.
func Memories() Backend { return store.Memories() }

// backends converts the backends of a Config to the internal type.
func backends(of []Backend) (store.Backends, error) {
	out := make(store.Backends, len(of))
	for i, b := range of {
		if b == nil || !b.As(&out[i]) {
			return nil, fmt.Errorf("open state stores: %T is not a backend of kops", b)
		}
	}
	return out, nil
}

// providers converts the platforms of a Config to the internal type.
func providers(of []Provider) ([]platform.Provider, error) {
	out := make([]platform.Provider, len(of))
	for i, p := range of {
		if p == nil || !p.As(&out[i]) {
			return nil, fmt.Errorf("reach platforms: %T is not a platform of kops", p)
		}
	}
	return out, nil
}

// Class classifies an error for retries.
type Class string

// Classes of errors.
const (
	// Permanent errors recur on every attempt: a bad request, an unknown field.
	Permanent Class = "permanent"
	// Denied means that the caller has no permission.
	Denied Class = "denied"
	// Quota means that a limit of the account has been reached.
	Quota Class = "quota"
	// Throttled means that the caller sent too many requests; a later attempt may succeed.
	Throttled Class = "throttled"
	// NotYet means that something that the operation needs is not ready.
	NotYet Class = "not yet"
	// Conflict means that another writer, or a resource that is still in use, prevented it.
	Conflict Class = "conflict"
	// Taken means that an object with the name already exists.
	Taken Class = "taken"
	// Gone means that the object does not exist.
	Gone Class = "gone"
	// Lost means that the response did not arrive, and it is unknown whether the operation took effect.
	Lost Class = "lost"
)

// ClassOf returns the class of an error.
func ClassOf(err error) Class { return Class(fault.Of(err)) }

// WithClass gives an error a class and, if remedy is not empty, what a user can do about it.
func WithClass(c Class, err error, remedy string) error {
	return fault.Wrap(fault.Class(c), err, remedy)
}

// Remedy returns what a user can do about an error; "" if that is unknown.
func Remedy(err error) string { return fault.Remedy(err) }

// Findings returns the problems of a user's objects, if they are the error.
func Findings(err error) finding.List {
	var l finding.List
	errors.As(err, &l)
	return l
}

// Facts are looked-up values. A nil *Facts means that kops looks them up.
type Facts struct{ of *facts.Facts }

// ReadFacts reads facts that Marshal wrote. The platforms check their own parts.
func ReadFacts(data []byte, platforms ...Provider) (*Facts, error) {
	of, err := facts.Parse(data)
	if err != nil {
		return nil, err
	}
	known, err := providers(platforms)
	if err != nil {
		return nil, err
	}
	for _, p := range known {
		if p.CheckFacts == nil {
			continue
		}
		if err := p.CheckFacts(of.Of(string(p.Name))); err != nil {
			return nil, err
		}
	}
	return &Facts{of}, nil
}

// Marshal returns the facts as a human-readable file.
func (f *Facts) Marshal() ([]byte, error) { return f.internal().Marshal() }

// MarshalJSON returns the facts as JSON.
func (f *Facts) MarshalJSON() ([]byte, error) { return json.Marshal(f.internal()) }

// internal returns the facts in the internal type, or nil.
func (f *Facts) internal() *facts.Facts {
	if f == nil {
		return nil
	}
	return f.of
}
