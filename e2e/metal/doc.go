// Package metal makes a cluster of machines that are reached over SSH only, loses one of
// them, and replaces it.
//
// It must not know how the machines are made; a cloud of this host makes them.
package metal
