package kinds

import (
	"context"
	"net"
	"strconv"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/site"
)

// Mirror serves a bundle's files and images at the host's address in the
// cluster's network.
type Mirror struct {
	Cluster string `res:"forbid"`
	Name    string `res:"forbid"`
	// Network is the id of the cluster's network.
	Network resource.Value `res:"forbid"`
	// Bundle is the folder to serve.
	Bundle string
	Port   int

	ID string `res:"out,id" out:"id"` // the cluster's name, a slash and the mirror's name
	// Address is where machines connect: an address and a port.
	Address string `res:"out" out:"address"`
}

// Mirrors is the kind of Mirror.
var Mirrors = resource.Kind[Mirror, *Client]{
	Name: "local_mirror", Direct: true, API: api, Phase: resource.Network, Tasks: []string{"Mirror"},
	Key:    func(m *Mirror) string { return m.Name },
	List:   listMirrors,
	Create: applyMirror,
	Update: []resource.Setter[Mirror, *Client]{{
		Fields: []string{"Bundle", "Port"},
		Set:    func(ctx context.Context, c *Client, _, want *Mirror) error { return applyMirror(ctx, c, want) },
	}},
	Ready: func(ctx context.Context, c *Client, m *Mirror) error {
		if err := c.trouble(m.Cluster, site.Mirrors, m.Name); err != nil {
			return err
		}
		return dialPort(ctx, m.Address)
	},
	Delete: func(ctx context.Context, c *Client, m *Mirror) error {
		return c.changeDesired(ctx, m.Cluster, func(s site.Site) error { return removeDesired(s, site.Mirrors, m.Name) })
	},
}

func listMirrors(_ context.Context, c *Client, s resource.Scope) ([]*Mirror, error) {
	return listDesired(c, s, keeper.Mirrors, func(here site.Site, w keeper.Mirror) (*Mirror, error) {
		m := &Mirror{Cluster: s.Cluster, Name: w.Name, Network: resource.Lit(here.Bridge()), Bundle: w.Bundle, Port: w.Port}
		return m, m.outputs(here)
	})
}

func (m *Mirror) outputs(s site.Site) error {
	m.ID = m.Cluster + "/" + m.Name
	host, err := hostAddress(s)
	if err != nil {
		return err
	}
	m.Address = net.JoinHostPort(host, strconv.Itoa(m.Port))
	return nil
}

func applyMirror(ctx context.Context, c *Client, m *Mirror) error {
	if err := site.CheckName(m.Name); err != nil {
		return err
	}
	return c.changeDesired(ctx, m.Cluster, func(s site.Site) error {
		if err := m.outputs(s); err != nil {
			return err
		}
		return writeDesired(s, site.Mirrors, m.Name, keeper.Mirror{Name: m.Name, Bundle: m.Bundle, Port: m.Port})
	})
}
