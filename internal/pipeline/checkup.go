package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/await"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/ops/kubeclient"
	"kops.local/kops/internal/platform"
)

// Checkup observes one cluster, repeatedly.
type Checkup struct {
	*Opened
	server string
	// authority issues the certificate with which the API is queried, valid for life; it is nil if
	// the kubeconfig is used.
	authority *pki.Keyset
	life      time.Duration

	opening sync.Mutex // held while config and api are set
	config  *rest.Config
	api     *health.API
}

// Reach specifies how the API server of a cluster is reached.
type Reach struct {
	// Server is the URL of the API, instead of the inferred one.
	Server string
	// Kubeconfig is the user's kubeconfig file. It is used if the state store does not have the key
	// of the cluster's authority, and always with UseKubeconfig.
	Kubeconfig    string
	UseKubeconfig bool
}

// CheckupLife is the validity period of a certificate that is issued for one query of an API
// server.
const CheckupLife = time.Hour

// Checkup finds the credentials for the cluster's API server. Credentials that are known to be
// useless are an error, because waiting would not help.
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
	k.config, kerr = await.Result(ctx, func() (*rest.Config, error) { // a file may be a pipe
		return health.FromKubeconfig(r.Kubeconfig, o.Cluster.Spec.Name, r.Server, o.World.Now())
	})
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

// Kubernetes returns a client of the API server for the objects of the cluster. Unlike Observe, it
// does not limit the time of its requests: ctx does. The error is of the class NotYet while the API
// has no address.
func (k *Checkup) Kubernetes(ctx context.Context) (*kubeclient.Client, error) {
	config, err := k.restConfig(ctx)
	if err != nil {
		return nil, err
	}
	return kubeclient.New(config)
}

// restConfig returns the configuration for reaching the API server, which must not be changed; the
// error is as for Kubernetes.
func (k *Checkup) restConfig(ctx context.Context) (*rest.Config, error) {
	k.opening.Lock()
	defer k.opening.Unlock()
	problem, err := k.reach(ctx)
	if err == nil && problem != nil {
		err = fault.Wrap(fault.NotYet, fmt.Errorf("ask the API of %s: %s", problem.Name, problem.Message), problem.Remedy)
	}
	return k.config, err
}

// reach finds out how the API server is reached, unless that is known. The caller must hold
// opening.
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
			Remedy: "create it: kops update cluster " + k.Cluster.Spec.Name + " --yes"}, nil
	}
	k.config = &rest.Config{Host: a.Server, TLSClientConfig: rest.TLSClientConfig{ServerName: a.TLSServerName, CAData: a.CA, CertData: a.Certificate, KeyData: a.Key}}
	return nil, nil
}

// open creates the client of the API server, once its address is known.
func (k *Checkup) open(ctx context.Context) (*health.Failure, error) {
	k.opening.Lock()
	defer k.opening.Unlock()
	if k.api != nil {
		return nil, nil
	}
	problem, err := k.reach(ctx)
	if err == nil && problem == nil {
		k.api, err = health.Open(k.config, k.Cluster.Spec.Spec.DNSType())
	}
	return problem, err
}

// nodes lists the nodes; the error says what prevents it.
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

// Server observes the API server itself.
func (k *Checkup) Server(ctx context.Context) (health.Observation, error) {
	problem, err := k.open(ctx)
	if err != nil || problem != nil {
		return health.Observation{Problem: problem}, err
	}
	return k.api.Server(ctx)
}

// Machines lists the machines, if the platform supports it.
func (o *Opened) Machines(ctx context.Context) (groups []platform.MachineGroup, err error) {
	err = fault.Retry(ctx, o.World.Sleep, func() (err error) {
		groups, err = o.Provider.Fleet.Machines(ctx, o.Session, o.Cluster.Spec, o.Cluster.Groups)
		return err
	})
	return groups, err
}

// Observe observes the machines and the API server, concurrently.
func (k *Checkup) Observe(ctx context.Context) (health.World, error) {
	w := health.World{Cluster: k.Cluster.Spec.Name, Groups: k.Cluster.Groups, Etcd: k.Cluster.Spec.Spec.EtcdClusters}
	g, part := errgroup.WithContext(ctx)
	if k.Provider.Fleet.Machines != nil {
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
		w.API, err = k.api.Observe(part)
		return err
	})
	if err := g.Wait(); err != nil {
		return w, fmt.Errorf("check the cluster %s: %w", w.Cluster, err)
	}
	return w, nil
}

// Starts reads how far the first of some machines have started.
func (k *Checkup) Starts(ctx context.Context, machines []platform.Machine, most int) map[string]health.Start {
	out := map[string]health.Start{}
	if k.Provider.Fleet.BootRecord == nil {
		return out
	}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(8)
	for _, m := range machines[:min(len(machines), most)] {
		g.Go(func() error {
			record, err := k.Provider.Fleet.BootRecord(ctx, k.Session, k.Cluster.Spec, m)
			start := health.ReadStart(record)
			if err != nil { // the rest of the result is useful without it
				start = health.Start{Message: "its boot report could not be read: " + err.Error()}
			}
			mu.Lock()
			defer mu.Unlock()
			out[m.Name] = start
			return nil
		})
	}
	_ = g.Wait() // never fails
	return out
}

// Logs adds the end of its logs to a pod that does not run.
func (k *Checkup) Logs(ctx context.Context, pod *corev1.Pod, d *health.PodDiagnosis, lines int) {
	k.api.ReadLogs(ctx, pod, d, lines)
}
