//go:build !unix

package bundle

import "os"

// lock does nothing: folders cannot be locked on this system, so two commands must not add to a
// bundle at the same time.
func lock(*os.File) error { return nil }
