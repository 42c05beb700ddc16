// Package hetzner is Hetzner Cloud as a platform of kops: it combines the kinds of resources, the model
// that declares them, the lookup of facts, and the operations on machines.
//
// It must not know how plans are made or carried out, nor read the environment.
package hetzner

import (
	"context"
	"strings"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/hetzner/kinds"
	"kops.local/kops/internal/platform/hetzner/lookup"
	"kops.local/kops/internal/platform/hetzner/model"
	"kops.local/kops/internal/platform/hetzner/spec"
	"kops.local/kops/internal/platform/rest"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
)

// Options say how the API is reached.
type Options struct {
	rest.Config
	Now func() time.Time
}

// In returns the platform as configured by a program's environment.
func In(w platform.World) platform.Provider {
	return Provider(Options{Now: time.Now, Config: rest.Config{Endpoint: w.Getenv(hetznercloud.EndpointVariable), Token: strings.TrimSpace(w.Getenv(hetznercloud.TokenVariable)),
		HTTP: w.HTTP, UserAgent: strings.TrimSuffix("kops/"+w.Version, "/")}})
}

// Provider returns the platform.
func Provider(o Options) platform.Provider {
	// Without Deregister: a server leaves the load balancer when its role is no longer labelled, but then
	// its firewall, too. The load balancer finds out within seconds that a server shuts down.
	return platform.Provider{
		Platform: spec.Platform(), Remote: true,
		// Hetzner limits requests by project: 3600 per hour, of which all can be used at once.
		Kinds: kinds.All(), Limits: map[string]int{"hcloud": 16, "store": 32},
		Connect: o.connect, Secrets: o.secrets,
		CheckSecrets: func(ctx context.Context, s *platform.Session) error { // by changing what does not exist
			return fault.IgnoreGone(s.Client.(*kinds.Client).Set(ctx, "ssh_keys/0", map[string]any{"name": "none"}))
		},
		Lookup:  platform.Lookup{Facts: o.facts, NewClusterFacts: o.newClusterFacts, Endpoint: endpoint},
		Declare: platform.Declare{Model: model.Build, Shared: sharedObjects, APIHost: model.APIHost, Terraform: model.Terraform},
		Fleet:   kinds.Fleet().Fleet(),
	}
}

func (o Options) connect(context.Context, platform.Config) (*platform.Session, error) {
	client := kinds.NewClient(hetznerapi.New(o.Config))
	return &platform.Session{Client: client, Snapshot: func() any { return client.Snapshot() },
		Prefetch: func(ctx context.Context, snapshot any, cluster string) {
			observe.Prefetch(ctx, kinds.All(), snapshot, cluster)
		}}, nil
}

// secrets returns the API token, which the cluster's own programs use, too.
func (o Options) secrets() (map[string]pki.Secret, error) {
	return map[string]pki.Secret{hetznercloud.TokenVariable: pki.NewSecret(o.Token)}, hetznerapi.CheckToken(o.Token)
}

func (o Options) facts(ctx context.Context, s *platform.Session, c *api.Cluster, groups []*api.InstanceGroup) (*facts.Facts, error) {
	return lookup.Facts(ctx, s.Client.(*kinds.Client).Client, o.Now(), lookup.ClusterQuery(c, groups))
}

func (o Options) newClusterFacts(ctx context.Context, s *platform.Session, n newcluster.Options, w newcluster.World) (*facts.Facts, error) {
	return lookup.Facts(ctx, s.Client.(*kinds.Client).Client, o.Now(), lookup.NewClusterQuery(n, w))
}

// sharedObjects lists what a cluster uses but does not own.
func sharedObjects(c *api.Cluster) ([]resource.Node, error) {
	if id := c.Spec.Networking.NetworkID; id != "" {
		return []resource.Node{kinds.Networks.Adopt(id, id, kinds.Network{})}, nil
	}
	return nil, nil
}

// endpoint returns the address of the API's load balancer: the public one, if it has one.
func endpoint(ctx context.Context, s *platform.Session, c *api.Cluster) (string, error) {
	all, err := hetznerapi.List[hetznerapi.LoadBalancer](ctx, s.Client.(*kinds.Client).Client, "load_balancers", hetznerapi.Labelled(hetznercloud.ClusterLabel+"="+c.Name))
	for _, b := range all {
		switch {
		case b.Name != hetznercloud.BalancerName(c.Name):
		case b.PublicNet.Enabled:
			return b.PublicNet.IPv4.IP, err
		case len(b.PrivateNet) > 0:
			return b.PrivateNet[0].IP, err
		}
	}
	return "", err
}
