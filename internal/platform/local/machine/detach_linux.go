package machine

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

// Detach starts a command in a session of its own, so that it goes on when this
// process ends. It writes to out.
func Detach(out *os.File, args []string) error {
	cmd := Detached(context.Background(), out, args)
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait() //nolint:errcheck // how it ends is in its log; this only lets the kernel forget it
	return nil
}

// Detached is a command to start as Detach does, and to wait for. The end of ctx kills it.
func Detached(ctx context.Context, out *os.File, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}
