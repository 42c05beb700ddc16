//go:build !linux

package site

import (
	"errors"
	"os"
)

func flock(*os.File, bool) (bool, error) { return false, errors.ErrUnsupported }
