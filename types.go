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
// world. As sets what it points to, where that is of the type that serves inside.
type Backend interface{ As(target any) bool }

// Provider is a platform: one of package world's, or one that package provider describes.
// As sets what it points to, where that is of the type that serves inside.
type Provider interface{ As(target any) bool }

// Features are switches of what is not on by itself, by name.
type Features map[string]bool

// NewClusterOptions are those of `create cluster`.
type NewClusterOptions = create.Options

// Validation is whether a cluster is what its objects say, and what is wrong; Diagnosis
// is that with what its machines and pods tell.
type (
	Validation = status.Validation
	Diagnosis  = status.Diagnosis
)

// Folders returns the backend of file:///absolute/path and of plain paths.
func Folders() Backend { return store.Folders() }

// Memories returns the backend of memory://name, and of memfs://name. One value opens one store per name.
func Memories() Backend { return store.Memories() }

// backends are those of a Config as they serve inside.
func backends(of []Backend) (store.Backends, error) {
	out := make(store.Backends, len(of))
	for i, b := range of {
		if b == nil || !b.As(&out[i]) {
			return nil, fmt.Errorf("open state stores: %T is not a backend of kops", b)
		}
	}
	return out, nil
}

// providers are those of a Config as they serve inside.
func providers(of []Provider) ([]platform.Provider, error) {
	out := make([]platform.Provider, len(of))
	for i, p := range of {
		if p == nil || !p.As(&out[i]) {
			return nil, fmt.Errorf("reach platforms: %T is not a platform of kops", p)
		}
	}
	return out, nil
}

// Class is what an error means for a retry.
type Class string

// Classes of errors.
const (
	// Permanent errors come back at every try: a bad request, an unknown field.
	Permanent Class = "permanent"
	// Denied means that the caller has no permission.
	Denied Class = "denied"
	// Quota means that a limit of the account is reached.
	Quota Class = "quota"
	// Throttled means that the caller asked too often; a later try may succeed.
	Throttled Class = "throttled"
	// NotYet means that something the operation needs is not ready.
	NotYet Class = "not yet"
	// Conflict means that another writer, or something still in use, was in the way.
	Conflict Class = "conflict"
	// Gone means that the object does not exist.
	Gone Class = "gone"
	// Lost means that the answer did not arrive, and nobody knows whether the operation took effect.
	Lost Class = "lost"
)

// ClassOf returns the class of an error.
func ClassOf(err error) Class { return Class(fault.Of(err)) }

// WithClass gives an error a class and, where remedy is not empty, what a user can do about it.
func WithClass(c Class, err error, remedy string) error {
	return fault.Wrap(fault.Class(c), err, remedy)
}

// Remedy returns what a user can do about an error; "" when that is not known.
func Remedy(err error) string { return fault.Remedy(err) }

// Findings returns what is wrong with the objects of a user, where that is the error.
func Findings(err error) finding.List {
	var l finding.List
	errors.As(err, &l)
	return l
}

// Facts are looked-up values. A nil *Facts means that kops looks them up.
type Facts struct{ of *facts.Facts }

// ReadFacts reads facts that Marshal wrote. The platforms check what is theirs.
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

// Marshal writes the facts as a file that people can read.
func (f *Facts) Marshal() ([]byte, error) { return f.known().Marshal() }

// MarshalJSON writes the facts as JSON.
func (f *Facts) MarshalJSON() ([]byte, error) { return json.Marshal(f.known()) }

// known are the facts as they serve inside, or nil.
func (f *Facts) known() *facts.Facts {
	if f == nil {
		return nil
	}
	return f.of
}
