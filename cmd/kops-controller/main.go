// Command kops-controller serves the machines of a cluster from its control
// plane: it lets them join, maintains the labels of their nodes, gives each node the pod
// addresses of its machine, and removes the nodes of machines
// that no longer exist. As `kops-controller routes` it runs on every machine and maintains
// its pod network.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"kops.local/kops/internal/node/controller/run"
	"kops.local/kops/internal/node/daemon"
	"kops.local/kops/internal/platform/controls"
	"kops.local/kops/internal/platform/nodes"
)

// version is set when a release is built.
var version = "1.37.0-dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o run.Options
	var verbosity int
	c := &cobra.Command{
		Use: "kops-controller", Short: "Let machines join a cluster, and keep the labels of nodes",
		Version: version, SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Version, o.Platforms, o.Machines, o.Env, o.Log = version, controls.All(), nodes.All(), os.Getenv, daemon.Logger(c.ErrOrStderr(), verbosity)
			return run.Controller(c.Context(), o)
		},
	}
	p := c.PersistentFlags()
	p.StringVar(&o.Kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig of the cluster; empty means the pod's service account")
	p.IntVarP(&verbosity, "v", "v", 0, "log verbosity; 4 shows details")
	c.Flags().StringVar(&o.Conf, "conf", "/etc/kubernetes/kops-controller/config/config.yaml", "configuration file")
	c.AddCommand(routesCommand(&o.Kubeconfig, &verbosity))
	return c
}
