// Package run is dns-controller: it connects the cluster, a DNS service and package dns.
//
// It must not know any platform, nor read flags or the environment itself.
package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"

	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/node/daemon"
	"kops.local/kops/internal/node/dns"
	"kops.local/kops/internal/node/dns/records"
)

// Service is a DNS service that can be chosen.
type Service struct {
	Name string
	Open func(context.Context) (records.Provider, error)
}

// Options holds the command line's settings.
type Options struct {
	// Cluster is the name of the cluster, API the public name of its API.
	Cluster, API string
	// DNS is the name of the service.
	DNS string
	// Zones are NAME, NAME/ID, */ID or */*.
	Zones    []string
	Families dns.Families
	// Ingress enables publishing Ingresses; Namespace is the namespace to watch, empty for all.
	Ingress   bool
	Namespace string
	// Allowed are the domains in which objects of every namespace may publish names.
	Allowed  []string
	Interval time.Duration
	// Listen is the address for metrics and readiness; empty disables it.
	Listen string
	// Kubeconfig is the kubeconfig of the cluster; empty means the pod's service account.
	Kubeconfig string
	// Version is the version of this program.
	Version  string
	Services []Service
	Log      *slog.Logger
}

// DNSController publishes names until the context ends.
func DNSController(ctx context.Context, o Options) error {
	specs, allowed, err := o.check()
	if err != nil {
		return err
	}
	provider, err := open(ctx, o)
	if err != nil {
		return err
	}
	config, err := daemon.Cluster(o.Kubeconfig, "dns-controller", o.Version)
	if err != nil {
		return err
	}
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	networking, err := networkingv1client.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	watch, err := dns.NewWatch(core, networking, o.Namespace, o.Ingress)
	if err != nil {
		return err
	}
	c := &dns.Controller{
		Provider: provider, Source: watch, Specs: specs,
		Rules: dns.Rules{Owner: dns.Owner{Cluster: o.Cluster, API: o.API}, Families: o.Families, Allowed: allowed}, Events: dns.EventsOf(core, time.Now),
		Interval: o.Interval, Now: time.Now, Sleep: clock.Sleep, Log: o.Log,
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return watch.Run(ctx) })
	g.Go(func() error { return c.Run(ctx) })
	if o.Listen != "" {
		g.Go(func() error { return daemon.Serve(ctx, &http.Server{Addr: o.Listen, Handler: c.Handler()}) })
	}
	return g.Wait()
}

// check parses the options, and returns all errors in them.
func (o Options) check() ([]dns.ZoneSpec, []dns.Domain, error) {
	var errs []error
	if o.Cluster == "" {
		errs = append(errs, errors.New("--cluster-name is required: only names of this cluster are changed"))
	}
	if !o.Families.IPv4 && !o.Families.IPv6 {
		errs = append(errs, errors.New("--internal-ipv4 or --internal-ipv6 is required: the addresses at which machines reach each other"))
	}
	if o.Interval <= 0 {
		errs = append(errs, fmt.Errorf("--update-interval: got %s, want more than 0", o.Interval))
	}
	var specs []dns.ZoneSpec
	for _, text := range o.Zones {
		s, err := dns.ParseZone(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--zone: %w", err))
		}
		specs = append(specs, s)
	}
	var allowed []dns.Domain
	for _, text := range o.Allowed {
		d, err := dns.ParseDomain(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--allow-domain: %w", err))
		}
		allowed = append(allowed, d)
	}
	return specs, allowed, errors.Join(errs...)
}

// open connects to the chosen service.
func open(ctx context.Context, o Options) (records.Provider, error) {
	var known []string
	for _, s := range o.Services {
		if s.Name == o.DNS {
			return s.Open(ctx)
		}
		known = append(known, s.Name)
	}
	return nil, fmt.Errorf("--dns: got %q; supported are %s", o.DNS, strings.Join(known, ", "))
}
