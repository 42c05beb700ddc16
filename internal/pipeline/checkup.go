package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/platform"
)

// Checkup looks at one cluster, again and again.
type Checkup struct {
	*Opened
	server string
	// authority issues the certificate with which the API is asked, for the time
	// of life; it is nil where the kubeconfig serves.
	authority *pki.Keyset
	life      time.Duration

	opening sync.Mutex // held while the following two are made
	config  *rest.Config
	api     *health.API
}

// Reach says how the API server of a cluster is asked.
type Reach struct {
	// Server is the URL of the API, instead of the inferred one.
	Server string
	// Kubeconfig is the user's kubeconfig file. It serves where the state store
	// does not hold the key of the cluster's authority, and always with UseKubeconfig.
	Kubeconfig    string
	UseKubeconfig bool
}

// CheckupLife is how long the certificate lives with which an API server is asked once.
const CheckupLife = time.Hour

// Checkup finds the credentials with which the cluster's API server is asked. What can
// be known to be of no use is an error here, as no waiting mends it.
func (o *Opened) Checkup(ctx context.Context, r Reach, life time.Duration) (*Checkup, error) {
	k := &Checkup{Opened: o, server: r.Server, life: life}
	var err error
	if !r.UseKubeconfig {
		k.authority, err = KubernetesCA(ctx, o.Cluster.Spec, o.Places.Folders)
		if err == nil {
			return k, nil
		}
	}
	var kerr error
	k.config, kerr = health.FromKubeconfig(r.Kubeconfig, o.Cluster.Spec.Name, r.Server, o.World.Now())
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

// Kubernetes is a client of the API server for all kinds of objects. Unlike Look it
// does not bound its requests: ctx does. The error is of the class NotYet while the
// API has no address.
func (k *Checkup) Kubernetes(ctx context.Context) (kubernetes.Interface, error) {
	config, err := k.reached(ctx)
	if err != nil {
		return nil, err
	}
	c := rest.CopyConfig(config)
	c.QPS, c.UserAgent, c.WarningHandler = -1, "kops", rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("use the address %s of the API: %w", c.Host, err)
	}
	return client, nil
}

// reached says how the API server is reached, which nobody changes; the error is Kubernetes'.
func (k *Checkup) reached(ctx context.Context) (*rest.Config, error) {
	k.opening.Lock()
	defer k.opening.Unlock()
	problem, err := k.reach(ctx)
	if err == nil && problem != nil {
		err = fault.Wrap(fault.NotYet, fmt.Errorf("ask the API of %s: %s", problem.Name, problem.Message), problem.Remedy)
	}
	return k.config, err
}

// reach finds how the API server is reached, unless that is known. opening is held.
func (k *Checkup) reach(ctx context.Context) (*health.Failure, error) {
	if k.config != nil {
		return nil, nil
	}
	a, err := k.Access(ctx, k.authority, AccessOptions{Admin: k.life, Server: k.server})
	if err != nil {
		return nil, err
	}
	if a.Server == "" {
		return &health.Failure{Kind: health.KindAPI, Name: k.Cluster.Spec.Name, Message: "it has no address yet: its load balancer does not exist",
			Remedy: "make it: kops update cluster " + k.Cluster.Spec.Name + " --yes"}, nil
	}
	k.config = &rest.Config{Host: a.Server, TLSClientConfig: rest.TLSClientConfig{ServerName: a.TLSServerName, CAData: a.CA, CertData: a.Certificate, KeyData: a.Key}}
	return nil, nil
}

// open makes the connection to the API server, once its address is known.
func (k *Checkup) open(ctx context.Context) (*health.Failure, error) {
	k.opening.Lock()
	defer k.opening.Unlock()
	if k.api != nil {
		return nil, nil
	}
	problem, err := k.reach(ctx)
	if err == nil && problem == nil {
		k.api, err = health.Open(k.config)
	}
	return problem, err
}

// nodes lists the nodes; the error tells what is in the way.
func (k *Checkup) nodes(ctx context.Context) ([]corev1.Node, error) {
	problem, err := k.open(ctx)
	if err == nil && problem != nil {
		err = errors.New(problem.Text())
	}
	if err != nil {
		return nil, err
	}
	return k.api.Nodes(ctx)
}

// Server sees how the API server itself is.
func (k *Checkup) Server(ctx context.Context) (health.Seen, error) {
	problem, err := k.open(ctx)
	if err != nil || problem != nil {
		return health.Seen{Problem: problem}, err
	}
	return k.api.Server(ctx)
}

// Machines lists the machines, where the platform can.
func (o *Opened) Machines(ctx context.Context) (groups []platform.MachineGroup, err error) {
	err = fault.Retry(ctx, o.World.Sleep, func() (err error) {
		groups, err = o.Provider.Machines(ctx, o.Session, o.Cluster.Spec, o.Cluster.Groups)
		return err
	})
	return groups, err
}

// Look sees the machines and what the API server shows, at once.
func (k *Checkup) Look(ctx context.Context) (health.World, error) {
	w := health.World{Cluster: k.Cluster.Spec.Name, Groups: k.Cluster.Groups, Etcd: k.Cluster.Spec.Spec.EtcdClusters}
	g, part := errgroup.WithContext(ctx)
	if k.Provider.Machines != nil {
		w.Counted = true
		g.Go(func() (err error) {
			w.Machines, err = k.Machines(part)
			return err
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
		return w, fmt.Errorf("check the cluster %s: %w", w.Cluster, err)
	}
	return w, nil
}

// Starts reads how far the first of some machines came.
func (k *Checkup) Starts(ctx context.Context, machines []platform.Machine, most int) map[string]health.Start {
	out := map[string]health.Start{}
	if k.Provider.BootRecord == nil {
		return out
	}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(8)
	for _, m := range machines[:min(len(machines), most)] {
		g.Go(func() error {
			record, err := k.Provider.BootRecord(ctx, k.Session, k.Cluster.Spec, m)
			start := health.ReadStart(record)
			if err != nil { // the rest of the result is worth having without it
				start = health.Start{Message: "its boot report could not be read: " + err.Error()}
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

// Logs adds to a pod that does not run the end of its logs.
func (k *Checkup) Logs(ctx context.Context, pod *corev1.Pod, d *health.PodDiagnosis, lines int) {
	k.api.ReadLogs(ctx, pod, d, lines)
}
