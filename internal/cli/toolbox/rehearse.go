package toolbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/ops/rehearse"
	"kops.local/kops/internal/platform/rehearsal"
	"kops.local/kops/internal/spec/diag"
)

func rehearseCommand(app *shell.App) *cobra.Command {
	var cloud, root string
	playable := rehearse.Playable(app.Platforms())
	c := shell.Cobra("rehearse [--cloud CLOUD] [-- COMMAND [ARGUMENT]...]", "Emulate a cloud on this host", `
Emulate a cloud on this host, and run a command in it (default: a shell). kops,
kubectl and the cloud's own tools work in it without an account, as they would with
the real cloud. Clusters that you create there boot: each instance is a container on
this host with an address, a metadata service, a role, volumes and user data, and all
services answer under their real names. Machines fetch from the bundle of this host,
and cannot reach anything else.

The state store is a bucket in the rehearsal. When the command ends, everything is
removed, and the exit code of the command is returned. If a rehearsal was killed, the
next one in its folder removes its leftovers. Problems are reported on stderr;
with -v, all events are.

The command needs root, and everything that clusters on this host need.`, `
  # a shell in which the cloud is this host
  kops toolbox rehearse

  # a whole cluster
  kops toolbox rehearse -- sh -c '
    kops create cluster --zones us-east-1a --networking kubenet cluster.example.com
    kops update cluster cluster.example.com --yes --admin
    kops validate cluster --wait 10m
    kubectl get nodes'

  # remove the leftovers of a rehearsal that was killed
  kops toolbox rehearse -- true`,
		func(ctx context.Context, args []string) error { return runRehearsal(ctx, app, cloud, root, args) })
	c.Args = cobra.ArbitraryArgs
	c.Flags().StringVar(&cloud, "cloud", playable[0], "cloud to emulate: "+diag.Or(playable))
	c.Flags().StringVar(&root, "dir", "", "folder of the rehearsal (default /var/lib/kops-rehearsal)")
	shell.Complete(c, "cloud", playable...)
	return c
}

func runRehearsal(ctx context.Context, app *shell.App, cloud, root string, args []string) error {
	if len(args) == 0 {
		args = []string{app.Env("SHELL")}
		if args[0] == "" {
			args[0] = "/bin/sh"
		}
		app.Notef("%s is emulated on this host in this shell; exit ends the rehearsal and removes everything created in it\n", strings.ToUpper(cloud))
	}
	app.LetFinish()
	r, err := rehearse.Open(ctx, app.Platforms(), cloud, rehearsal.StageOptions{Root: root, Log: rehearsalLog(app)})
	if err != nil {
		return err
	}
	err = runIn(ctx, app, r, args)
	if ctx.Err() != nil {
		app.Notef("the rehearsal is ending: its machines are being removed; if you quit immediately, the next rehearsal removes the rest\n")
	}
	cerr := r.Close(context.WithoutCancel(ctx))
	var status *exec.ExitError
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("run %s: %w", args[0], ctx.Err())
	case errors.As(err, &status) && cerr == nil:
		return statusOf(status)
	case err != nil:
		err = fmt.Errorf("run %s: %w", args[0], err)
	}
	return errors.Join(err, cerr)
}

// rehearsalLog logs errors along with the command's output, and everything with -v.
func rehearsalLog(app *shell.App) *slog.Logger {
	level := slog.LevelWarn
	if app.Verbosity > 0 {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(app.Err, &slog.HandlerOptions{Level: level}))
}

// grace is how long a command may take to exit after it was asked to stop, before it is killed.
const grace = 30 * time.Second

// runIn runs a user's command in a rehearsal until it exits. When this program is stopped, so is
// the command; if the play fails meanwhile, the user sees the error.
func runIn(ctx context.Context, app *shell.App, r *rehearse.Rehearsal, args []string) error {
	env := append(os.Environ(), "KOPS_BUNDLE="+app.Bundle(), "KOPS_BUILT="+app.Built(), "PATH="+filepath.Dir(app.Program)+string(os.PathListSeparator)+app.Env("PATH"))
	cmd := r.Command(ctx, env, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = app.In, shell.Terminals(app.Out), shell.Terminals(app.Err) // a shell needs the terminal itself
	stop := syscall.SIGTERM
	if len(args) == 1 { // a shell at a terminal ignores SIGTERM, and exits when the terminal is closed
		stop = syscall.SIGHUP
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(stop) }
	cmd.WaitDelay = grace
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-r.Done():
			app.Notef("the rehearsal has failed, and its services no longer answer: %v\n", r.Failure())
		case <-over:
		}
	})
	defer watch.Wait()
	defer close(over)
	return cmd.Run()
}

// statusOf returns the exit code of a failed command, as shells do.
func statusOf(status *exec.ExitError) shell.Code {
	if w, ok := status.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return shell.Code(128 + int(w.Signal()))
	}
	return shell.Code(status.ExitCode())
}
