//go:build !unix

package bundle

import "os"

// lock does nothing: this system cannot lock a folder, and two commands must not
// add to one bundle at once.
func lock(*os.File) error { return nil }
