// Package metal creates a cluster of machines that are reached over SSH only, loses one of
// them, and replaces it.
//
// It must not know how the machines are created; a cloud of this host creates them.
package metal
