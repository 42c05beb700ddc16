package kinds

import (
	"context"
	"net"
	"slices"
	"strconv"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/local/balance"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/site"
)

// LoadBalancer forwards connections to the host's address in the cluster's network to
// the machines of some groups.
type LoadBalancer struct {
	Cluster string `res:"forbid"`
	Name    string `res:"forbid"`
	// Network is the id of the cluster's network.
	Network   resource.Value `res:"forbid"`
	Listeners []Listener
	// Groups are the names of the groups whose machines serve.
	Groups []string

	ID string `res:"out,id" out:"id"` // the cluster's name, a slash and the load balancer's name
	// Address is where clients connect.
	Address string `res:"out" out:"address"`
}

// Listener is one port of a load balancer.
type Listener struct {
	// Port is where clients connect, Target is the machines' port.
	Port, Target int
	// Check is the URL, without a host name, for which a ready machine returns status
	// 200, such as http://:3990/readyz; empty: one that accepts a connection is ready.
	Check string
}

// LoadBalancers is the kind of LoadBalancer.
var LoadBalancers = resource.Kind[LoadBalancer, *Client]{
	Name: "local_load_balancer", Direct: true, API: api, Tasks: []string{"LoadBalancer"},
	Key:    func(b *LoadBalancer) string { return b.Name },
	List:   listBalancers,
	Create: applyBalancer,
	Update: []resource.Setter[LoadBalancer, *Client]{{
		Fields: []string{"Listeners", "Groups"},
		Set:    func(ctx context.Context, c *Client, _, want *LoadBalancer) error { return applyBalancer(ctx, c, want) },
	}},
	Ready: waitForBalancer,
	Delete: func(ctx context.Context, c *Client, b *LoadBalancer) error {
		return c.changeDesired(ctx, b.Cluster, func(s site.Site) error { return removeDesired(s, site.Balancers, b.Name) })
	},
}

func listBalancers(_ context.Context, c *Client, s resource.Scope) ([]*LoadBalancer, error) {
	return listDesired(c, s, keeper.Balancers, func(here site.Site, w keeper.Balancer) (*LoadBalancer, error) {
		b := &LoadBalancer{Cluster: s.Cluster, Name: w.Name, Network: resource.Lit(here.Bridge()), Groups: w.Groups}
		for _, f := range w.Fronts {
			b.Listeners = append(b.Listeners, Listener(f))
		}
		return b, b.outputs(here)
	})
}

func (b *LoadBalancer) outputs(s site.Site) error {
	b.ID = b.Cluster + "/" + b.Name
	var err error
	b.Address, err = hostAddress(s)
	return err
}

func applyBalancer(ctx context.Context, c *Client, b *LoadBalancer) error {
	if err := site.CheckName(b.Name); err != nil {
		return err
	}
	return c.changeDesired(ctx, b.Cluster, func(s site.Site) error {
		if err := b.outputs(s); err != nil {
			return err
		}
		w := keeper.Balancer{Name: b.Name, Groups: slices.Clone(b.Groups)}
		for _, l := range b.Listeners {
			w.Fronts = append(w.Fronts, balance.Front(l))
		}
		return writeDesired(s, site.Balancers, b.Name, w)
	})
}

// waitForBalancer returns nil if every port is open and the keeper reports no trouble.
// An open port alone proves little: another program of the host may have opened it.
func waitForBalancer(ctx context.Context, c *Client, b *LoadBalancer) error {
	if err := c.trouble(b.Cluster, site.Balancers, b.Name); err != nil {
		return err
	}
	for _, l := range b.Listeners {
		if err := dialPort(ctx, net.JoinHostPort(b.Address, strconv.Itoa(l.Port))); err != nil {
			return err
		}
	}
	return nil
}

// dialPort returns an error of class fault.NotYet unless the address accepts connections.
func dialPort(ctx context.Context, address string) error {
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return fault.Wrap(fault.NotYet, err, "")
	}
	conn.Close() // only that it is open matters
	return nil
}
