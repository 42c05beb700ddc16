//go:build !linux

package rehearsal

import (
	"context"
	"errors"
	"net"
	"os/exec"
)

// Tie does nothing: a stage is on Linux.
func Tie(*exec.Cmd) {}

func end(cmd *exec.Cmd) error { return cmd.Process.Kill() }

func startIsolated(*exec.Cmd) error { return errors.ErrUnsupported }

func dialIsolated(context.Context, int, string) (net.Conn, error) { return nil, errors.ErrUnsupported }
