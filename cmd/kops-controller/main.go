// Command kops-controller serves the machines of a cluster from its control
// plane: it lets them join, keeps the labels of their nodes, gives these the
// addresses that their machines have for pods, and removes the nodes of machines
// that are gone. As `kops-controller routes` it runs on every machine and keeps
// its pod network.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"kops.local/kops/internal/node/controller/routes"
	"kops.local/kops/internal/node/controller/run"
	"kops.local/kops/internal/node/daemon"
	"kops.local/kops/internal/platform/controls"
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
			o.Version, o.Platforms, o.Env, o.Log = version, controls.All(), os.Getenv, daemon.Logger(c.ErrOrStderr(), verbosity)
			return run.Controller(c.Context(), o)
		},
	}
	p := c.PersistentFlags()
	p.StringVar(&o.Kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "how to reach the cluster; empty means with the pod's service account")
	p.IntVarP(&verbosity, "v", "v", 0, "how much to log; 4 shows details")
	c.Flags().StringVar(&o.Conf, "conf", "/etc/kubernetes/kops-controller/config/config.yaml", "configuration file")
	c.AddCommand(routesCommand(&o.Kubeconfig, &verbosity))
	return c
}

func routesCommand(kubeconfig *string, verbosity *int) *cobra.Command {
	a := routes.Agent{Kernel: routes.System()}
	var pods []string
	c := &cobra.Command{
		Use: "routes", Short: "Keep the pod network of this machine: routes to other nodes' pods, and the CNI configuration", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if a.Node == "" {
				return errors.New("--node-name is needed")
			}
			for _, text := range pods {
				r, err := netip.ParsePrefix(text)
				if err != nil {
					return fmt.Errorf("--pod-cidr: %w", err)
				}
				a.Network.Pods = append(a.Network.Pods, r)
			}
			config, err := daemon.Cluster(*kubeconfig, "kops-routes", version)
			if err != nil {
				return err
			}
			core, err := corev1client.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("reach the cluster: %w", err)
			}
			a.Nodes, a.Log = core.Nodes(), daemon.Logger(c.ErrOrStderr(), *verbosity)
			return a.Run(c.Context())
		},
	}
	c.Flags().StringVar(&a.Node, "node-name", os.Getenv("NODE_NAME"), "name of this machine's node")
	c.Flags().StringSliceVar(&pods, "pod-cidr", nil, "ranges of the cluster's pods; no other is led to a node")
	c.Flags().IntVar(&a.Network.Bits, "node-cidr-mask-size", 24, "length of a node's range of IPv4 addresses")
	c.Flags().IntVar(&a.Network.Bits6, "node-cidr-mask-size-ipv6", 64, "length of a node's range of IPv6 addresses")
	c.Flags().StringVar(&a.CNIFolder, "cni-folder", "/etc/cni/net.d", "where the container runtime looks for its network configuration")
	return c
}
