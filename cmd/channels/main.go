// Command channels applies the add-ons that a channel lists to the cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"kops.local/kops/internal/node/channels/run"
	"kops.local/kops/internal/node/daemon"
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
	root := &cobra.Command{Use: "channels", Short: "Apply add-ons to a cluster", Version: version, SilenceUsage: true, SilenceErrors: true}
	apply := &cobra.Command{Use: "apply", Short: "Apply add-ons"}
	root.AddCommand(apply)
	apply.AddCommand(applyChannel())
	return root
}

func applyChannel() *cobra.Command {
	var o run.Options
	var verbosity int
	c := &cobra.Command{
		Use:   "channel URL...",
		Short: "Apply the add-ons of channels whose version differs from the one in the cluster",
		Long: `Apply the add-ons of channels whose version differs from the one in the cluster.
An add-on that was applied from one of the channels and that no channel lists now is removed; its namespaces, kinds and volumes are kept.`,
		Example: `  # show what differs
  channels apply channel s3://state/c.example.com/addons/bootstrap-channel.yaml
  # apply it, and again each minute
  channels apply channel --yes --interval 1m file:///srv/state/c.example.com/addons/bootstrap-channel.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, urls []string) error {
			o.URLs, o.Version, o.Platforms, o.Env, o.Out, o.Log = urls, version, nodes.All(), os.Getenv, c.OutOrStdout(), daemon.Logger(c.ErrOrStderr(), verbosity)
			return run.Channels(c.Context(), o)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.Yes, "yes", false, "apply; without it, only show the differences")
	f.DurationVar(&o.Interval, "interval", 0, "time to wait after each success before applying again; 0 means once")
	f.StringVar(&o.NodeLabels, "node-labels", "", "labels that the node gets at each pass, such as a=b,c")
	f.StringVar(&o.NodeName, "node-name", "", "name of the node that gets the labels")
	f.StringVar(&o.Kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "how to reach the cluster; empty means with the pod's service account")
	f.IntVarP(&verbosity, "v", "v", 0, "how much to log; 4 shows details")
	return c
}
