package kops

import (
	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/store"
)

// What a Config is made of, and what a Client returns, under names that programs
// outside this module can write.
type (
	// Backends open state stores by the scheme of their URL; Backend is one of them.
	Backends = store.Backends
	Backend  = store.Backend
	// Provider is a platform.
	Provider = platform.Provider
	// Features are switches of what is not on by itself.
	Features = complete.Features
	// NewClusterOptions are those of `create cluster`.
	NewClusterOptions = newcluster.Options
	// Facts are what was looked up.
	Facts = facts.Facts
	// Plan is what is to be done, step by step; StepEvent tells how it goes.
	Plan      = plan.Plan
	Step      = plan.Step
	StepEvent = exec.Event
	// Class is what an error means for a retry: gone, not yet, denied, conflict …
	Class = fault.Class
)

// ClassOf returns the class of an error.
func ClassOf(err error) Class { return fault.Of(err) }

// Remedy returns what a user can do about an error; "" when that is not known.
func Remedy(err error) string { return fault.Remedy(err) }

// Folders returns the backend of file:///absolute/path and of plain paths.
func Folders() Backend { return store.Folders() }

// Memories returns the backend of memory://name. One value opens one store per name.
func Memories() Backend { return store.Memories() }
