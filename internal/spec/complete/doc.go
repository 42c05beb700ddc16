// Package complete makes the full spec of a cluster and its groups from the short
// one that a user writes. It is one pass of named rules in a fixed order; each
// fills only what is empty, so that what the user wrote always stands, and so that
// completing a completed spec changes nothing. Every value that a rule fills is
// recorded with the rule and its reason.
//
// It must not look anything up: what the clouds know comes in as facts. It must
// not know how a spec is read, stored or turned into resources.
package complete
