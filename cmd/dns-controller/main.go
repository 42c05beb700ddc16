// Command dns-controller publishes the names of a cluster, and the names requested by annotations
// of its Services, pods and Ingresses, in zones of a DNS service.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops/internal/node/daemon"
	"kops.local/kops/internal/node/dns"
	"kops.local/kops/internal/node/dns/records"
	"kops.local/kops/internal/node/dns/rfc2136"
	"kops.local/kops/internal/node/dns/run"
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
		Use: "dns-controller", Short: "Publish the names of a cluster", Version: version, SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Version, o.Log = version, daemon.Logger(c.ErrOrStderr(), verbosity)
			return run.DNSController(c.Context(), o)
		},
	}
	f := c.Flags()
	for _, p := range controls.All() {
		if p.DNS == nil {
			continue
		}
		batch := p.DNS.Batch
		if p.DNS.BatchFlag != "" {
			f.IntVar(&batch, p.DNS.BatchFlag, batch, "values in a batch of changes of "+p.DNS.Name)
		}
		o.Services = append(o.Services, run.Service{Name: p.DNS.Name, Open: func(ctx context.Context) (records.Provider, error) { return p.DNS.Open(ctx, os.Getenv, batch) }})
	}
	server := addRFC2136(c, &o)
	o.Services = append(o.Services, run.Service{Name: "rfc2136", Open: server})
	f.StringVar(&o.Cluster, "cluster-name", "", "name of the cluster whose names are published")
	f.StringVar(&o.API, "api-name", "", "public name of the cluster's API, if it is published")
	f.StringVar(&o.DNS, "dns", o.Services[0].Name, "DNS service")
	f.StringSliceVar(&o.Zones, "zone", nil, "zones that may be changed: NAME, NAME/ID, */ID, or */* for any; repeatable")
	f.BoolVar(&o.Ingress, "watch-ingress", true, "publish the hosts of Ingresses")
	f.StringVar(&o.Namespace, "watch-namespace", "", "namespace whose pods, Services and Ingresses are published; empty: all")
	f.StringSliceVar(&o.Allowed, "allow-domain", nil, "domain in which objects of every namespace may publish names, in addition to the cluster's own name: DOMAIN, *.DOMAIN with wildcards, or * for all; may be repeated")
	f.BoolVar(&o.Families.IPv4, "internal-ipv4", false, "machines of the cluster reach each other by IPv4")
	f.BoolVar(&o.Families.IPv6, "internal-ipv6", false, "machines of the cluster reach each other by IPv6")
	f.DurationVar(&o.Interval, "update-interval", 5*time.Second, "time between rounds")
	f.StringVar(&o.Listen, "metrics-listen", "", "address of /metrics and /readyz, such as 127.0.0.1:3985; empty: none")
	f.StringVar(&o.Kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig of the cluster; empty means the pod's service account")
	f.IntVarP(&verbosity, "v", "v", 0, "log verbosity; 4 shows details")
	return c
}

// addRFC2136 adds the flags of a self-hosted DNS server, and returns the function that connects to it.
func addRFC2136(c *cobra.Command, o *run.Options) func(context.Context) (records.Provider, error) {
	var server, keyFile string
	c.Flags().StringVar(&server, "dns-server", "", "with --dns=rfc2136: the primary server of the zones, HOST or HOST:PORT")
	c.Flags().StringVar(&keyFile, "tsig-key-file", "", "with --dns=rfc2136: file with the key that signs, as tsig-keygen writes it; empty: the variable TSIG_KEY holds it")
	return func(context.Context) (records.Provider, error) {
		to := rfc2136.Options{Server: server, Now: time.Now}
		for _, text := range o.Zones {
			if z, err := dns.ParseZone(text); err == nil && z.Name != "" { // the program reports invalid ones
				to.Zones = append(to.Zones, z.Name)
			}
		}
		text := os.Getenv("TSIG_KEY")
		if keyFile != "" {
			data, err := os.ReadFile(keyFile)
			if err != nil {
				return nil, fmt.Errorf("--tsig-key-file: %w", err)
			}
			text = string(data)
		}
		if text == "" {
			return nil, errors.New("--dns=rfc2136 needs a key: --tsig-key-file, or the variable TSIG_KEY")
		}
		var err error
		if to.Key, err = rfc2136.ReadKey(strings.NewReader(text)); err != nil {
			return nil, fmt.Errorf("the TSIG key: %w", err)
		}
		return rfc2136.New(to)
	}
}
