// Command kops-controller serves the machines of a cluster from its control
// plane: it lets them join, keeps the labels of their nodes, gives these the
// addresses that their machines have for pods, and removes the nodes of machines
// that are gone. As `kops-controller routes` it runs on every machine and keeps
// its pod network.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"kops.local/kops/internal/cli/daemon"
	"kops.local/kops/internal/contract/controllerconfig"
	"kops.local/kops/internal/contract/localcloud"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/node/controller/routes"
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

// options are the flags.
type options struct {
	conf       string
	kubeconfig string
	verbosity  int
}

func command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use: "kops-controller", Short: "Let machines join a cluster, and keep the labels of nodes",
		Version: version, SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return run(c, o) },
	}
	p := c.PersistentFlags()
	p.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "how to reach the cluster; empty means with the pod's service account")
	p.IntVarP(&o.verbosity, "v", "v", 0, "how much to log; 4 shows details")
	c.Flags().StringVar(&o.conf, "conf", "/etc/kubernetes/kops-controller/config/config.yaml", "configuration file")
	c.AddCommand(routesCommand(&o))
	return c
}

func routesCommand(o *options) *cobra.Command {
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
			config, err := daemon.Cluster(o.kubeconfig, "kops-routes", version)
			if err != nil {
				return err
			}
			core, err := corev1client.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("reach the cluster: %w", err)
			}
			a.Nodes, a.Log = core.Nodes(), daemon.Logger(c.ErrOrStderr(), o.verbosity)
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

func run(c *cobra.Command, o options) error {
	text, err := os.ReadFile(o.conf)
	if err != nil {
		return err
	}
	conf, err := controllerconfig.Parse(text)
	if err != nil {
		return err
	}
	config, err := daemon.Cluster(o.kubeconfig, "kops-controller", version)
	if err != nil {
		return err
	}
	stored, err := openStores(c.Context(), conf)
	if err != nil {
		return err
	}
	who, err := platform(c.Context(), conf, stored)
	if err != nil {
		return err
	}
	log := daemon.Logger(c.ErrOrStderr(), o.verbosity)
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	signers, err := controller.LoadSigners(os.DirFS(conf.Server.CABasePath), conf.Server.SigningCAs)
	if err != nil {
		return err
	}
	trusted, err := controller.LoadTrusted(os.DirFS(conf.Server.CABasePath), pki.KubernetesCA)
	if err != nil {
		return err
	}
	own, err := serving(conf.Server.CertificatePath, conf.Server.KeyPath)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: conf.Server.Listen, TLSConfig: own,
		ErrorLog: slog.NewLogLogger(quiet{log.Handler()}, slog.LevelWarn),
		Handler: &controller.Server{
			Verifier: who.verifier, Nodes: controller.LiveNodes{Client: core.Nodes()}, Configs: stored, Signers: signers, Trusted: trusted,
			Gate: controller.NewGate(time.Now), Allowed: conf.Server.CertNames, Issuer: pki.Issuer{Rand: rand.Reader, Now: time.Now}, Log: log,
		}}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	work := []func(context.Context) error{(&controller.Labeller{Nodes: core.Nodes(), Groups: who.groups, Now: time.Now, Log: log}).Run}
	if conf.CloudIPAM {
		if who.prefixes == nil {
			return fmt.Errorf("the configuration of kops-controller: enableCloudIPAM: machines of the cloud %q have no ranges of addresses for pods", conf.Cloud)
		}
		work = append(work, (&controller.Ranger{Nodes: core.Nodes(), Prefixes: who.prefixes, Log: log}).Run)
	}
	if who.machines != nil {
		work = append(work, (&controller.Lifecycle{Nodes: core.Nodes(), Pods: core, Machines: who.machines, Period: who.period, Clock: bootstrap.SystemClock(), Log: log,
			Dead: &controller.Dead{ConfigMaps: core.ConfigMaps("kube-system"), Now: time.Now}}).Run)
	}
	g, ctx := errgroup.WithContext(c.Context())
	g.Go(func() error { return daemon.Serve(ctx, server) })
	g.Go(func() error { return lead(ctx, config, host, work) })
	return g.Wait()
}

// quiet makes a detail of what the server tells of each connection that a load
// balancer opens, twice a second, only to see whether the port is open.
type quiet struct{ slog.Handler }

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	closed := strings.HasSuffix(r.Message, ": EOF") || strings.HasSuffix(r.Message, ": connection reset by peer")
	if closed && strings.HasPrefix(r.Message, "http: TLS handshake error ") {
		if r.Level = slog.LevelDebug; !q.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return q.Handler.Handle(ctx, r)
}

// lead runs all work on one control plane of all.
func lead(ctx context.Context, config *rest.Config, host string, work []func(context.Context) error) error {
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	return controller.Lead(ctx, leases, host+"_"+rand.Text(), func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		for _, w := range work {
			g.Go(func() error { return w(ctx) })
		}
		return g.Wait()
	})
}

// openStores opens the folders of the cluster.
func openStores(ctx context.Context, conf *controllerconfig.Config) (controller.Stored, error) {
	stores := daemon.Stores(os.Getenv, &http.Client{Timeout: time.Minute})
	base, err := stores.Open(ctx, conf.ConfigBase)
	if err != nil {
		return controller.Stored{}, err
	}
	secrets := conf.SecretStore
	if secrets == "" {
		secrets = strings.TrimSuffix(conf.ConfigBase, "/") + "/secrets"
	}
	secret, err := stores.Open(ctx, secrets)
	if err != nil {
		return controller.Stored{}, err
	}
	return controller.Stored{Base: base, Secrets: secret}, nil
}

// identity is how a platform tells who machines are, and of which group nodes are.
type identity struct {
	verifier bootstrap.Verifier
	groups   controller.Groups
	// prefixes are the addresses that the cloud leads to machines for their pods; nil where it does not.
	prefixes controller.Prefixes
	// machines tells which of them are gone; nil: that is not known. period is how often to ask.
	machines controller.Machines
	period   time.Duration
}

// localPeriod is how often the local cloud's folder of machines is read.
const localPeriod = 5 * time.Second

// platform returns the identity of the configuration's cloud.
func platform(ctx context.Context, conf *controllerconfig.Config, stored controller.Stored) (identity, error) {
	known := map[string]func() (identity, error){
		"local": func() (identity, error) { return onThisHost(conf, stored) },
		"metal": func() (identity, error) {
			return identity{verifier: bootstrap.NewMachineKeyVerifier(stored, time.Now), groups: stored}, nil
		},
		"aws": func() (identity, error) { return onAWS(ctx, conf, stored) },
	}
	build, ok := known[conf.Cloud]
	if !ok {
		return identity{}, fmt.Errorf("machines of the cloud %q cannot prove themselves yet; known are %s", conf.Cloud, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	return build()
}

// onThisHost reads what the local cloud tells of its machines.
func onThisHost(conf *controllerconfig.Config, stored controller.Stored) (identity, error) {
	var own localcloud.Controller
	if err := conf.Section(&own); err != nil {
		return identity{}, err
	}
	folder := own.Machines
	if folder == "" {
		return identity{}, errors.New("the configuration of kops-controller: server.provider.local.machines, the folder of machines, is not set")
	}
	self, err := os.Hostname()
	if err != nil {
		return identity{}, err
	}
	known := controller.Registry{Folder: os.DirFS(folder), Self: self, Stored: stored}
	return identity{verifier: bootstrap.NewMachineKeyVerifier(known, time.Now), groups: known, machines: known, period: localPeriod}, nil
}
