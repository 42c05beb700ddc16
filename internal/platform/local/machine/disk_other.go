//go:build !linux

package machine

import (
	"errors"
	"io/fs"
)

func freeSpace(string) (int64, error) { return 0, errors.ErrUnsupported }

func diskUsage(fs.FileInfo) int64 { return 0 }
