package kops

import (
	"context"
	"slices"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/certificates"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/pipeline"
)

// ReachOptions say how the API server of a cluster is asked.
type ReachOptions struct {
	// Server is the URL of the API, instead of the inferred one.
	Server string
	// Kubeconfig is the user's kubeconfig file. It serves where the state store
	// does not hold the key of the cluster's authority, and always with UseKubeconfig.
	Kubeconfig    string
	UseKubeconfig bool
}

// ValidateOptions say how a cluster is validated.
type ValidateOptions struct {
	ReachOptions
	// Wait is how long to try again until the cluster is ready; 0: the first result counts.
	Wait time.Duration
	// Interval is the pause between tries; 0 means 10 seconds.
	Interval time.Duration
	// Count is how often in a row the cluster must be found ready, while waiting; 0 means once.
	Count int
	// MaxUnready is how many worker nodes need not be ready.
	MaxUnready int
	// On receives the events of the validation.
	On On
}

// validationInterval is the pause between two tries when nothing else is said.
const validationInterval = 10 * time.Second

// ValidateCluster checks whether a cluster is ready and matches its objects. Failures of the
// cluster are in the result and not an error; an API server that does not answer is such a
// failure. If the time is over before the cluster is ready, the last result is returned with
// an error of the class NotYet.
func (c *Client) ValidateCluster(ctx context.Context, name string, o ValidateOptions) (*Validation, error) {
	told := &call{cluster: name, on: o.On}
	if err := c.withoutGossip(ctx, name); err != nil {
		return nil, err
	}
	k, err := c.checkup(ctx, told, o.ReachOptions, pipeline.CheckupLife+o.Wait)
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
	if err != nil { // a kubeconfig serves where the keys are not for everybody to read
		keysets = nil
	}
	var last *Validation
	for passed := 0; ; {
		looking := limited
		if last == nil { // one result there is, however short the time
			looking = ctx
		}
		w, err := k.Look(looking)
		if err == nil {
			w.Starts = k.Starts(looking, health.Wanting(w), mostStarts)
			w.MaxUnready, w.Rolling = o.MaxUnready, c.rolling(looking, name)
			last = health.Check(w)
			stock := certificates.New(keysets)
			stock.Nodes(w.API.Nodes)
			ended, soon := ends(stock, name, c.cfg.World.Now())
			last.Failures, last.Ending = append(last.Failures, slices.Concat(broken, ended)...), soon
			last.Failures = append(last.Failures, c.etcdTrouble(looking, newCluster(k.Cluster), crammed)...)
			if err := told.tell(Event{Kind: EventValidation, Validation: last}); err != nil {
				return last, err
			}
			passed++
			if !last.Ready() {
				passed = 0
			}
			if o.Wait <= 0 || passed >= max(1, o.Count) {
				last.Stale = staleIn(ctx, k, w)
				return last, nil
			}
			err = c.cfg.World.Sleep(limited, o.Interval)
		}
		// The first look had all the time it wanted: its error is another.
		if err != nil && last != nil && ctx.Err() == nil && limited.Err() != nil {
			return last, fault.New(fault.NotYet, "wait time exceeded during validation")
		}
		if err != nil {
			return nil, err
		}
	}
}

// staleIn counts the machines that have to be restarted or replaced.
func staleIn(ctx context.Context, k *pipeline.Checkup, w health.World) int {
	n := 0
	judged, _ := k.Stale(ctx, w, pipeline.StaleOptions{}) // a cluster is as ready when nobody knows
	for _, m := range judged {
		if m.Stale() {
			n++
		}
	}
	return n
}

// mostStarts is how many machines are asked for the account of their start in
// one validation; some platforms take a request for each.
const mostStarts = 20

// checkup opens the cluster's platform and finds the credentials of its API server.
func (c *Client) checkup(ctx context.Context, told *call, o ReachOptions, life time.Duration) (*pipeline.Checkup, error) {
	opened, err := c.examined(ctx, told)
	if err != nil {
		return nil, err
	}
	return opened.Checkup(ctx, pipeline.Reach(o), life)
}

// examined opens the platform of the cluster of a call.
func (c *Client) examined(ctx context.Context, told *call) (*pipeline.Opened, error) {
	if err := told.phase("examine"); err != nil {
		return nil, err
	}
	cl, err := c.Clusters().Get(ctx, told.cluster)
	if err != nil {
		return nil, err
	}
	return c.world.Open(ctx, cl.stored(), pipeline.OpenOptions{})
}
