package machine

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

// Detach starts a command in a session of its own, so that it outlives this process.
// Its output goes to out.
func Detach(out *os.File, args []string) error {
	cmd := DetachedCommand(context.Background(), out, args)
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait() //nolint:errcheck // its log shows how it exits; this only reaps it
	return nil
}

// DetachedCommand returns a command to start as Detach does, and to wait for. It is killed when
// ctx is done.
func DetachedCommand(ctx context.Context, out *os.File, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}
