//go:build !linux

package keeper

import (
	"context"
	"errors"
	"io"

	"kops.local/kops/internal/platform/local/site"
)

// Run is for Linux only.
func Run(context.Context, site.Site, []string, io.Writer) error { return errors.ErrUnsupported }

// Alive is for Linux only.
func Alive(site.Site) (int, bool) { return 0, false }

// Wake is for Linux only.
func Wake(site.Site) {}

// Start is for Linux only.
func Start(context.Context, site.Site, []string) error { return errors.ErrUnsupported }

// Stop is for Linux only.
func Stop(context.Context, site.Site) error { return errors.ErrUnsupported }
