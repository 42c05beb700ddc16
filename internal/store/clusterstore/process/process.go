// Package process names processes so that another process on the same machine can
// find out later whether one has exited.
//
// It knows nothing of leases. A name is meaningless on other machines.
package process
