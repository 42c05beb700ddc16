//go:build !linux

package rehearsal

import (
	"context"
	"errors"
	"net"
	"os/exec"
)

// KillWithParent does nothing: stages exist only on Linux.
func KillWithParent(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

func startInNamespace(*exec.Cmd) error { return errors.ErrUnsupported }

func dialInNamespace(context.Context, int, string) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}
