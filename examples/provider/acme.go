// Package acme is an example of a platform outside of the kops module. Its cloud rents
// out fleets of machines, each with a host name.
package acme

import (
	"context"
	"fmt"
	"sync"

	"kops.local/kops/api"
	"kops.local/kops/provider"
	"kops.local/kops/provider/value"
)

// Cloud holds the rented fleets. A real one would send requests.
type Cloud struct {
	mu     sync.Mutex
	rented map[string]Fleet // by name
}

// Fleet is a number of identical machines.
type Fleet struct {
	Name    string `res:"replace"`
	Cluster string `res:"replace"`
	Group   string `res:"replace"`
	Size    int
	// API is the host name of the API.
	API value.Value `res:"replace"`
	// Start is the script that a machine runs when it boots.
	Start value.Content

	Host string `res:"out" out:"host"`
}

// Platform returns the cloud as a platform of kops.
func (c *Cloud) Platform() *provider.Platform {
	return &provider.Platform{
		Name: "acme", Title: "Acme", Image: "acme-linux",
		Kinds: []provider.AnyKind{c.names(), c.fleets()},
		Model: c.model, Endpoint: c.endpoint,
		// This is a test: do not look up the digests of the files that machines download.
		FileHashes: map[string]string{"*": fmt.Sprintf("%064d", 0)},
	}
}

// Name is a DNS name that the cloud serves.
type Name struct {
	Cluster string `res:"replace"`

	Host string `res:"out" out:"host"`
}

// names returns the kind of DNS names. It stores nothing: a cluster has its name as long as
// it has a fleet.
func (c *Cloud) names() *provider.Kind[Name] {
	return &provider.Kind[Name]{
		Name: "acme_name", Phase: "network",
		Key: func(n *Name) string { return n.Cluster },
		List: func(_ context.Context, s provider.Scope) ([]*Name, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, f := range c.rented {
				if f.Cluster == s.Cluster {
					return []*Name{{s.Cluster, "api." + s.Cluster}}, nil
				}
			}
			return nil, nil
		},
		Create: func(_ context.Context, n *Name) error { n.Host = "api." + n.Cluster; return nil },
		Delete: func(context.Context, *Name) error { return nil },
	}
}

func (c *Cloud) fleets() *provider.Kind[Fleet] {
	return &provider.Kind[Fleet]{
		Name: "acme_fleet", Title: "Fleet",
		Key:   func(f *Fleet) string { return f.Name },
		Group: func(f *Fleet) string { return f.Group },
		// A machine is replaced if its API or Start changes, but not if Size does.
		MadeOf: []string{"API", "Start"},
		List: func(_ context.Context, s provider.Scope) (out []*Fleet, err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, f := range c.rented {
				if f.Cluster == s.Cluster {
					out = append(out, &f)
				}
			}
			return out, nil
		},
		Create:  func(_ context.Context, f *Fleet) error { return c.rent(f) },
		Update:  func(_ context.Context, _, want *Fleet) error { return c.rent(want) },
		Updates: []string{"Size", "Start"},
		Delete: func(_ context.Context, f *Fleet) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.rented, f.Name)
			return nil
		},
	}
}

func (c *Cloud) rent(f *Fleet) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.Host = f.Name + ".acme"
	if c.rented == nil {
		c.rented = map[string]Fleet{}
	}
	c.rented[f.Name] = *f
	return nil
}

// model declares the name of the API, and a fleet for each instance group.
func (c *Cloud) model(in *provider.Cluster) ([]provider.Resource, error) {
	cluster := in.Spec.Name
	name := c.names().Want(cluster, Name{Cluster: cluster})
	out := []provider.Resource{name}
	for _, g := range in.Groups {
		start, err := in.Start(g, name.Out("host"))
		if err != nil {
			return nil, err
		}
		f := Fleet{Name: g.Name + "." + cluster, Cluster: cluster, Group: g.Name, API: name.Out("host"), Start: start}
		if g.Spec.MinSize != nil {
			f.Size = int(*g.Spec.MinSize)
		}
		out = append(out, c.fleets().Want(f.Name, f))
	}
	return out, nil
}

func (c *Cloud) endpoint(_ context.Context, cluster *api.Cluster) (string, error) {
	return "api." + cluster.Name, nil
}
