// Package process names processes so that another process on the same machine can
// tell, later, whether one has ended.
//
// It knows nothing of leases. A name says nothing to other machines.
package process
