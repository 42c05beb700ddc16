//go:build !linux

package machine

import (
	"errors"
	"os"
)

// Detach is for Linux only.
func Detach(*os.File, []string) error { return errors.ErrUnsupported }
