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

	"github.com/spf13/cobra"

	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/ops/rehearse"
	"kops.local/kops/internal/platform/rehearsal"
)

func rehearseCommand(app *shell.App) *cobra.Command {
	var cloud, root string
	playable := rehearse.Playable(app.Platforms())
	c := shell.Cobra("rehearse [--cloud CLOUD] [-- COMMAND [ARGUMENT]...]", "Play a cloud on this host, and use it", `
Play a cloud on this host, and run a command in it, a shell where none is named: there
kops, kubectl and the cloud's own tools work as if they were called for real, without an
account. Clusters that are made there boot: each of their instances is a machine of this
host with an address, a metadata service, a role, volumes and the user data that it would
have, and all services answer under their real names. Machines fetch from the bundle of
this host, and reach nothing else.

The state store is a bucket of the rehearsal. When the command ends, all that was made goes.

It needs root, and what clusters of this host need.`, `
  # a shell in which the cloud is this host
  kops toolbox rehearse

  # a whole cluster
  kops toolbox rehearse -- sh -c '
    kops create cluster --zones us-east-1a --networking kubenet cluster.example.com
    kops update cluster cluster.example.com --yes --admin
    kops validate cluster --wait 10m
    kubectl get nodes'`,
		func(ctx context.Context, args []string) error { return runRehearsal(ctx, app, cloud, root, args) })
	c.Args = cobra.ArbitraryArgs
	c.Flags().StringVar(&cloud, "cloud", playable[0], "cloud that is played: "+shell.OneOf(playable))
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
		app.Notef("%s is played on this host in this shell; exit ends it, and removes what was made\n", strings.ToUpper(cloud))
	}
	log := slog.New(slog.NewTextHandler(app.Err, nil))
	r, err := rehearse.Open(ctx, app.Platforms(), cloud, rehearsal.HouseOptions{Root: root, Log: log})
	if err != nil {
		return err
	}
	env := append(os.Environ(), "PATH="+filepath.Dir(app.Program)+string(os.PathListSeparator)+app.Env("PATH"))
	cmd := r.Command(ctx, env, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = app.In, app.Out, app.Err
	err = cmd.Run()
	cerr := r.Close(context.WithoutCancel(ctx))
	var status *exec.ExitError
	if errors.As(err, &status) && cerr == nil {
		return shell.Code(status.ExitCode())
	}
	if err != nil {
		err = fmt.Errorf("run %s: %w", args[0], err)
	}
	return errors.Join(err, cerr)
}
