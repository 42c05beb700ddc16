// Command channels applies the add-ons that a channel lists to the cluster.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/channels"
	"kops.local/kops/internal/node/daemon"
	"kops.local/kops/internal/store/web"
)

// version is set when a release is built.
var version = "1.37.0-dev"

// settleTime is how long a pass waits for what it applied to run.
const settleTime = 15 * time.Second

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

// options are the flags of `channels apply channel`.
type options struct {
	yes        bool
	interval   time.Duration
	nodeLabels string
	nodeName   string
	kubeconfig string
	verbosity  int
}

func applyChannel() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "channel URL...",
		Short: "Apply the add-ons of channels whose version differs from the one in the cluster",
		Long: `Apply the add-ons of channels whose version differs from the one in the cluster.
An add-on that was applied from one of the channels and that none of them lists
any more is removed; its namespaces, kinds and volumes are kept.`,
		Example: `  # show what differs
  channels apply channel s3://state/c.example.com/addons/bootstrap-channel.yaml
  # apply it, and again each minute
  channels apply channel --yes --interval 1m file:///srv/state/c.example.com/addons/bootstrap-channel.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, urls []string) error { return run(c, o, urls) },
	}
	f := c.Flags()
	f.BoolVar(&o.yes, "yes", false, "apply; without it, only tell what differs")
	f.DurationVar(&o.interval, "interval", 0, "apply again and again, this long after each success; 0 means once")
	f.StringVar(&o.nodeLabels, "node-labels", "", "labels that the node gets at each pass, such as a=b,c")
	f.StringVar(&o.nodeName, "node-name", "", "name of the node that gets the labels")
	f.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "how to reach the cluster; empty means with the pod's service account")
	f.IntVarP(&o.verbosity, "v", "v", 0, "how much to log; 4 shows details")
	return c
}

func run(c *cobra.Command, o options, urls []string) error {
	labels, err := channels.ParseLabels(o.nodeLabels)
	if err != nil {
		return err
	}
	if len(labels) > 0 && o.nodeName == "" {
		return errors.New("--node-labels needs --node-name")
	}
	config, err := daemon.Cluster(o.kubeconfig, "kops-channels", version)
	if err != nil {
		return err
	}
	a, err := channels.NewApplier(config)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: time.Minute, CheckRedirect: web.KeepTLS}
	a.Fetch, a.Clock, a.Settle = channels.NewFetch(daemon.Stores(os.Getenv, &http.Client{}), client), bootstrap.SystemClock(), settleTime
	a.Issuer, a.Log = pki.Issuer{Rand: rand.Reader, Now: time.Now}, daemon.Logger(c.ErrOrStderr(), o.verbosity)
	loop := &channels.Loop{Applier: a, URLs: urls, Interval: o.interval, Labels: labels}
	if len(labels) > 0 {
		loop.Node = o.nodeName
	}
	switch {
	case !o.yes:
		return preview(c, a, urls)
	case o.interval <= 0:
		return loop.Once(c.Context())
	}
	g, ctx := errgroup.WithContext(c.Context())
	ready := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports.ChannelsReady)) // the kubelet asks whether the last pass succeeded
	g.Go(func() error { return daemon.Serve(ctx, &http.Server{Addr: ready, Handler: loop}) })
	g.Go(func() error { return loop.Run(ctx) })
	return g.Wait()
}

// preview tells what would be applied.
func preview(c *cobra.Command, a *channels.Applier, urls []string) error {
	states, err := a.Compare(c.Context(), urls)
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "NAME\tCURRENT\tUPDATE\tPKI") // the error shows at Flush
	for _, s := range states {
		if s.Outdated {
			current := "-"
			if s.Recorded != nil {
				current = short(s.Recorded.ManifestHash)
			}
			_, _ = fmt.Fprintln(w, strings.Join([]string{s.Addon.Name, current, short(s.Addon.ManifestHash), map[bool]string{true: "yes", false: "no"}[s.Addon.NeedsPKI]}, "\t"))
		}
	}
	return errors.Join(err, w.Flush(), previewDropped(c, a, states))
}

// previewDropped tells which add-ons would be removed, with each of their objects.
func previewDropped(c *cobra.Command, a *channels.Applier, states []channels.State) error {
	var errs []error
	for _, s := range states {
		if !s.Dropped {
			continue
		}
		removed, stay, err := a.Leaving(c.Context(), s)
		errs = append(errs, err)
		_, err = fmt.Fprintf(c.OutOrStdout(), "\n%s is no longer listed and would be removed:\n%s%s", s.Addon.Name, lines("delete", removed), lines("keep", stay))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// lines puts a verb before each name.
func lines(verb string, names []string) string {
	var b strings.Builder
	for _, n := range names {
		b.WriteString("  " + verb + " " + n + "\n")
	}
	return b.String()
}

// short is the start of a hash, enough to tell versions apart.
func short(hash string) string { return hash[:min(len(hash), 12)] }
