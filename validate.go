package kops

import (
	"context"
	"slices"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/certificates"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/spec/validate"
)

// ReachOptions configure how to reach the API server of a cluster.
type ReachOptions struct {
	// Server is the URL of the API, instead of the inferred one.
	Server string
	// Kubeconfig is the user's kubeconfig file. It is used if the state store does not
	// contain the key of the cluster's authority, and always with UseKubeconfig.
	Kubeconfig    string
	UseKubeconfig bool
}

// ValidateOptions configure a validation.
type ValidateOptions struct {
	ReachOptions
	// Wait is how long to retry until the cluster is ready; 0 means that the first result counts.
	Wait time.Duration
	// Interval is the pause between attempts; 0 means 10 seconds.
	Interval time.Duration
	// Count is how many times in a row the cluster must be found ready, while waiting; 0 means once.
	Count int
	// MaxUnready is how many worker nodes need not be ready.
	MaxUnready int
	// On receives the events of the validation.
	On On
}

// validationInterval is the default pause between two attempts.
const validationInterval = 10 * time.Second

// ValidateCluster checks whether a cluster is ready and matches its objects. Failures of the
// cluster are in the result and not an error; an API server that does not answer is such a
// failure. If the time expires before the cluster is ready, the last result is returned with
// an error of class NotYet.
func (c *Client) ValidateCluster(ctx context.Context, name string, o ValidateOptions) (*Validation, error) {
	progress := &reporter{cluster: name, on: o.On}
	k, err := c.checkup(ctx, progress, o.ReachOptions, pipeline.CheckupLife+o.Wait)
	if err != nil {
		return nil, err
	}
	if o.Interval <= 0 {
		o.Interval = validationInterval
	}
	limited := ctx
	if o.Wait > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, o.Wait)
		defer cancel()
	}
	keysets, err := k.Places.Keysets(ctx)
	broken := keyTrouble(err)
	if err != nil { // if the keys are not readable, a kubeconfig is sufficient
		keysets = nil
	}
	var last *Validation
	for passed := 0; ; {
		looking := limited
		if last == nil { // there is at least one result, however short the time
			looking = ctx
		}
		w, err := k.Observe(looking)
		if err == nil {
			w.Starts = k.Starts(looking, health.MachinesInTrouble(w), maxStarts)
			w.MaxUnready, w.Rolling = o.MaxUnready, c.rollingMachines(looking, name)
			last = health.Check(w)
			stock := certificates.New(keysets)
			stock.Nodes(w.API.Nodes)
			ended, soon := expiringCertificates(stock, name, c.cfg.World.Now())
			last.Failures, last.Ending = append(last.Failures, slices.Concat(broken, ended)...), soon
			last.Failures = append(last.Failures, c.etcdTrouble(looking, newCluster(k.Cluster), crammed)...)
			if err := progress.report(Event{Kind: EventValidation, Validation: last}); err != nil {
				return last, err
			}
			passed++
			if !last.Ready() {
				passed = 0
			}
			if o.Wait <= 0 || passed >= max(1, o.Count) {
				last.Stale = countStale(ctx, k, w)
				return last, nil
			}
			err = c.cfg.World.Sleep(limited, o.Interval)
		}
		// The first check had no time limit: its error is not a timeout.
		if err != nil && last != nil && ctx.Err() == nil && limited.Err() != nil {
			return last, fault.New(fault.NotYet, "wait time exceeded during validation")
		}
		if err != nil {
			return nil, err
		}
	}
}

// countStale counts the machines that must be restarted or replaced.
func countStale(ctx context.Context, k *pipeline.Checkup, w health.World) int {
	n := 0
	judged, _ := k.Stale(ctx, w, pipeline.StaleOptions{}) // if unknown, readiness is not affected
	for _, m := range judged {
		if m.Stale() {
			n++
		}
	}
	return n
}

// maxStarts is the maximum number of machines whose boot report is requested in
// one validation; some platforms need a request for each.
const maxStarts = 20

// checkup opens the cluster's platform and finds the credentials of its API server.
func (c *Client) checkup(ctx context.Context, progress *reporter, o ReachOptions, life time.Duration) (*pipeline.Checkup, error) {
	opened, err := c.openPlatform(ctx, progress)
	if err != nil {
		return nil, err
	}
	return opened.Checkup(ctx, pipeline.Reach(o), life)
}

// openPlatform opens the platform of the cluster of a call. It refuses a cluster that uses gossip
// DNS before anything else, because any other error would be misleading.
func (c *Client) openPlatform(ctx context.Context, progress *reporter) (*pipeline.Opened, error) {
	if err := progress.phase("examine"); err != nil {
		return nil, err
	}
	cl, err := c.Clusters().Get(ctx, progress.cluster)
	if err != nil {
		return nil, err
	}
	if err := validate.Gossip(cl.Spec).Err(); err != nil {
		return nil, err
	}
	return c.world.Open(ctx, cl.stored(), pipeline.OpenOptions{})
}
