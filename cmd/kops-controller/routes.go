package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/spf13/cobra"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"kops.local/kops/internal/node/controller/routes"
	"kops.local/kops/internal/node/daemon"
)

// routesCommand returns the command that maintains the pod network of a machine.
func routesCommand(kubeconfig *string, verbosity *int) *cobra.Command {
	a := routes.Agent{Kernel: routes.System()}
	var pods []string
	c := &cobra.Command{
		Use: "routes", Short: "Keep the pod network of this machine: routes to other nodes' pods, and the CNI configuration", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if a.Node == "" {
				return errors.New("--node-name is required")
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
	c.Flags().StringSliceVar(&pods, "pod-cidr", nil, "CIDRs of the cluster's pods; other ranges are not routed to nodes")
	c.Flags().IntVar(&a.Network.Bits, "node-cidr-mask-size", 24, "length of a node's range of IPv4 addresses")
	c.Flags().IntVar(&a.Network.Bits6, "node-cidr-mask-size-ipv6", 64, "length of a node's range of IPv6 addresses")
	c.Flags().StringVar(&a.CNIFolder, "cni-folder", "/etc/cni/net.d", "where the container runtime looks for its network configuration")
	return c
}
