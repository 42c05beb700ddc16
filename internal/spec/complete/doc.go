// Package complete completes the short spec of a cluster and its groups that a user writes. It is
// one pass of named rules in a fixed order; each only fills what is empty, so that the user's
// values are always kept, and completing a completed spec changes nothing. Every value that a rule
// fills is recorded with the rule and its reason.
//
// It must not look anything up: information from clouds comes in as facts. It must not know how a
// spec is read, stored or turned into resources.
package complete
