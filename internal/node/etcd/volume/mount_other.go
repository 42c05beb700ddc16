//go:build !linux

package volume

import (
	"context"
	"log/slog"

	"kops.local/kops/internal/engine/fault"
)

// Host mounts volumes on the machine itself; it can do so only on Linux.
type Host struct {
	Root, Dir string
	Log       *slog.Logger
}

// Mount implements Mounter.
func (Host) Mount(context.Context, Volume) (string, error) {
	return "", fault.New(fault.Permanent, "volumes can be mounted on Linux only")
}
