// Package run is the program channels: it connects the cluster, the store and
// package channels.
//
// It must not know any add-on, nor read flags or the environment itself.
package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/channels"
	"kops.local/kops/internal/node/daemon"
	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/store/open"
	"kops.local/kops/internal/store/s3/sdkchain"
	"kops.local/kops/internal/store/web"
)

// settleTime is how long a pass waits until what it applied runs.
const settleTime = 15 * time.Second

// Options holds the command line's settings and the program's environment.
type Options struct {
	// URLs are the channels' URLs.
	URLs []string
	// Yes applies the add-ons; without it the differences are only printed.
	Yes bool
	// Interval is the time after a success until everything is applied again; 0 means only once.
	Interval time.Duration
	// NodeLabels are the labels, such as a=b,c, that the node NodeName gets in each pass.
	NodeLabels, NodeName string
	// Kubeconfig is the kubeconfig of the cluster; empty means the pod's service account.
	Kubeconfig string
	// Version is the version of this program.
	Version string
	// Platforms provide credentials for the store, if they have any.
	Platforms []onmachine.Platform
	Env       func(string) string
	Out       io.Writer
	Log       *slog.Logger
}

// Channels applies the add-ons, or prints the differences.
func Channels(ctx context.Context, o Options) error {
	labels, err := channels.ParseLabels(o.NodeLabels)
	if err != nil {
		return err
	}
	if len(labels) > 0 && o.NodeName == "" {
		return errors.New("--node-labels needs --node-name")
	}
	config, err := daemon.Cluster(o.Kubeconfig, "kops-channels", o.Version)
	if err != nil {
		return err
	}
	a, err := channels.NewApplier(config)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: time.Minute, CheckRedirect: web.KeepTLS}
	a.Fetch, a.Clock, a.Settle = channels.NewFetch(onmachine.LocalStores(o.Platforms, open.Options{Env: o.Env, HTTP: &http.Client{}, Account: sdkchain.Credentials{}}), client), bootstrap.SystemClock(), settleTime
	a.Issuer, a.Log = pki.Issuer{Rand: rand.Reader, Now: time.Now}, o.Log
	loop := &channels.Loop{Applier: a, URLs: o.URLs, Interval: o.Interval, Labels: labels}
	if len(labels) > 0 {
		loop.Node = o.NodeName
	}
	switch {
	case !o.Yes:
		return preview(ctx, o, a)
	case o.Interval <= 0:
		return loop.Once(ctx)
	}
	g, ctx := errgroup.WithContext(ctx)
	ready := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports.ChannelsReady)) // the kubelet's readiness probe
	g.Go(func() error { return daemon.Serve(ctx, &http.Server{Addr: ready, Handler: loop}) })
	g.Go(func() error { return loop.Run(ctx) })
	return g.Wait()
}

// preview prints what would be applied.
func preview(ctx context.Context, o Options, a *channels.Applier) error {
	states, err := a.Compare(ctx, o.URLs)
	w := tabwriter.NewWriter(o.Out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "NAME\tCURRENT\tUPDATE\tPKI") // Flush returns the error
	for _, s := range states {
		if s.Outdated {
			current := "-"
			if s.Recorded != nil {
				current = shortHash(s.Recorded.ManifestHash)
			}
			_, _ = fmt.Fprintln(w, strings.Join([]string{s.Addon.Name, current, shortHash(s.Addon.ManifestHash), map[bool]string{true: "yes", false: "no"}[s.Addon.NeedsPKI]}, "\t"))
		}
	}
	return errors.Join(err, w.Flush(), previewDropped(ctx, o.Out, a, states))
}

// previewDropped prints which add-ons would be removed, with each of their objects.
func previewDropped(ctx context.Context, out io.Writer, a *channels.Applier, states []channels.State) error {
	var errs []error
	for _, s := range states {
		if !s.Dropped {
			continue
		}
		removed, stay, err := a.PreviewRemoval(ctx, s)
		errs = append(errs, err)
		_, err = fmt.Fprintf(out, "\n%s is no longer listed and would be removed:\n%s%s", s.Addon.Name, lines("delete", removed), lines("keep", stay))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// lines returns a line for each name, with a verb before it.
func lines(verb string, names []string) string {
	var b strings.Builder
	for _, n := range names {
		b.WriteString("  " + verb + " " + n + "\n")
	}
	return b.String()
}

// shortHash returns the start of a hash, enough to tell versions apart.
func shortHash(hash string) string { return hash[:min(len(hash), 12)] }
