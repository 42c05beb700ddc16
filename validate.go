package kops

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/platform"
)

// Validation is whether a cluster is what its objects say, and what is wrong.
type Validation = health.Validation

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
	// Seen is called with each result; may be nil.
	Seen func(*Validation)
}

// validationInterval is the pause between two tries when nothing else is said.
const validationInterval = 10 * time.Second

// checkupLife is how long the certificate lives with which an API server is asked once.
const checkupLife = time.Hour

// ValidateCluster finds out whether a cluster is what its objects say. A cluster
// that is not has failures in the result, which is no error; an API server that
// does not answer is such a failure. When the time is over before the cluster is
// ready, the last result is returned with an error of the class NotYet.
func (c *Client) ValidateCluster(ctx context.Context, name string, o ValidateOptions) (*Validation, error) {
	k, err := c.checkup(ctx, name, o.ReachOptions)
	if err != nil {
		return nil, err
	}
	k.life += o.Wait
	if o.Interval <= 0 {
		o.Interval = validationInterval
	}
	limited := ctx
	if o.Wait > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, o.Wait)
		defer cancel()
	}
	var last *Validation
	for passed := 0; ; {
		looking := limited
		if last == nil { // one result there is, however short the time
			looking = ctx
		}
		w, err := k.look(looking)
		if err == nil {
			w.Starts = k.starts(looking, health.Wanting(w), mostStarts)
			w.MaxUnready = o.MaxUnready
			last = health.Check(w)
			if o.Seen != nil {
				o.Seen(last)
			}
			passed++
			if !last.Ready() {
				passed = 0
			}
			if o.Wait <= 0 || passed >= max(1, o.Count) {
				return last, nil
			}
			err = c.cfg.Sleep(limited, o.Interval)
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

// checkup looks at one cluster, again and again.
type checkup struct {
	*prepared
	reach ReachOptions
	// authority issues the certificate with which the API is asked, for the time
	// of life; it is nil where the kubeconfig serves.
	authority *pki.Keyset
	life      time.Duration
	config    *rest.Config
	api       *health.API
}

// checkup opens the cluster's platform and finds the credentials. What can be
// known to be of no use is an error here, as no waiting mends it.
func (c *Client) checkup(ctx context.Context, name string, o ReachOptions) (*checkup, error) {
	c.cfg.Phase("examine")
	cl, err := c.Cluster(ctx, name)
	if err != nil {
		return nil, err
	}
	k := &checkup{prepared: &prepared{cluster: cl, client: c}, reach: o, life: checkupLife}
	if err := c.connect(ctx, k.prepared, UpdateOptions{}); err != nil {
		return nil, err
	}
	if !o.UseKubeconfig {
		k.authority, err = c.kubernetesCA(ctx, cl.Spec, k.places.Folders)
		if err == nil {
			return k, nil
		}
	}
	var kerr error
	k.config, kerr = health.FromKubeconfig(o.Kubeconfig, name, o.Server, c.cfg.Now())
	switch {
	case kerr == nil:
		return k, nil
	case fault.Is(err, fault.Gone): // the cluster was never applied: no kubeconfig can help
		return nil, err
	case err != nil:
		return nil, errors.Join(err, kerr)
	}
	return nil, kerr
}

// open makes the connection to the API server, once its address is known.
func (k *checkup) open(ctx context.Context) (*health.Failure, error) {
	if k.api != nil {
		return nil, nil
	}
	if k.config == nil {
		a, err := k.client.access(ctx, k.prepared, k.authority, KubeconfigOptions{Admin: k.life, Server: k.reach.Server})
		if err != nil {
			return nil, err
		}
		if a.Server == "" {
			return &health.Failure{Kind: health.KindAPI, Name: k.cluster.Spec.Name, Message: "it has no address yet: its load balancer is not there",
				Remedy: "make it: kops update cluster " + k.cluster.Spec.Name + " --yes"}, nil
		}
		k.config = &rest.Config{Host: a.Server, TLSClientConfig: rest.TLSClientConfig{ServerName: a.TLSServerName, CAData: a.CA, CertData: a.Certificate, KeyData: a.Key}}
	}
	var err error
	k.api, err = health.Open(k.config)
	return nil, err
}

// look sees the machines and what the API server shows, at once.
func (k *checkup) look(ctx context.Context) (health.World, error) {
	w := health.World{Cluster: k.cluster.Spec.Name, Groups: k.cluster.Groups, Etcd: k.cluster.Spec.Spec.EtcdClusters}
	g, part := errgroup.WithContext(ctx)
	if k.provider.Machines != nil {
		w.Counted = true
		g.Go(func() error {
			return fault.Retry(part, k.client.cfg.Sleep, func() (err error) {
				w.Machines, err = k.provider.Machines(part, k.session, k.cluster.Spec, k.cluster.Groups)
				return err
			})
		})
	}
	g.Go(func() (err error) {
		if w.API.Problem, err = k.open(part); err != nil || w.API.Problem != nil {
			return err
		}
		w.API, err = k.api.Look(part)
		return err
	})
	if err := g.Wait(); err != nil {
		return w, fmt.Errorf("look at the cluster %s: %w", w.Cluster, err)
	}
	return w, nil
}

// mostStarts is how many machines are asked for the account of their start in
// one validation; some platforms take a request for each.
const mostStarts = 20

// starts reads how far the first of some machines came.
func (k *checkup) starts(ctx context.Context, machines []platform.Machine, most int) map[string]health.Start {
	out := map[string]health.Start{}
	if k.provider.BootRecord == nil {
		return out
	}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(8)
	for _, m := range machines[:min(len(machines), most)] {
		g.Go(func() error {
			record, err := k.provider.BootRecord(ctx, k.session, k.cluster.Spec, m)
			start := health.ReadStart(record)
			if err != nil { // the rest of the result is worth having without it
				start = health.Start{Message: "the account of its start cannot be had: " + err.Error()}
			}
			mu.Lock()
			defer mu.Unlock()
			out[m.Name] = start
			return nil
		})
	}
	_ = g.Wait() // no part of it fails
	return out
}
