package manager

import (
	"context"
	"fmt"
	"slices"
	"time"

	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/peer"
)

// forgetAfter is how long a peer that does not answer is greeted.
const forgetAfter = 24 * time.Hour

// meet greets every manager that discovery found or another manager has mentioned.
func (m *Manager) meet(ctx context.Context) {
	now := m.cfg.Now()
	if now.Sub(m.met) < min(m.pause(), m.cfg.Times.Meet) && m.lead.token != "" {
		return // a leader in a hurry need not greet each time
	}
	m.met = now
	if now.Sub(m.discovered) >= m.cfg.Times.Discover || now.Sub(m.started) < youth {
		m.discovered = now
		found, err := m.discover(ctx)
		if err != nil {
			m.cfg.Log.Warn("not every manager was found", "error", err)
		}
		m.known = found
	}
	var endpoints []string
	for _, s := range append(slices.Clone(m.known), m.allPeers()...) {
		endpoints = append(endpoints, s.Endpoint)
	}
	slices.Sort(endpoints)
	hello := m.hello()
	endpoints = slices.DeleteFunc(slices.Compact(endpoints), func(e string) bool { return e == m.cfg.Self.Endpoint })
	m.cfg.Each(len(endpoints), func(i int) { m.greet(ctx, endpoints[i], hello) })
	m.updateHosts(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.roster.Forget(now.Add(-forgetAfter))
}

func (m *Manager) discover(ctx context.Context) ([]etcd.Sighting, error) {
	ctx, cancel := context.WithTimeout(ctx, discoverTimeout)
	defer cancel()
	return m.cfg.Discovery.Discover(ctx)
}

func (m *Manager) greet(ctx context.Context, endpoint string, hello peer.Hello) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := m.cfg.Link.Service(endpoint).Hello(ctx, hello)
	if err != nil {
		m.cfg.Log.Debug("no answer to a greeting", "endpoint", endpoint, "error", err)
		return
	}
	m.recordHello(answer, endpoint)
}

// recordHello records that a manager is healthy, and which peers it knows. endpoint is
// where it was reached; empty if it called, in which case its own endpoint is
// used.
func (m *Manager) recordHello(h peer.Hello, endpoint string) {
	if h.Cluster != m.cfg.Cluster || h.Peer.ID == m.cfg.Self.ID {
		return
	}
	if endpoint == "" {
		endpoint = h.Peer.Endpoint
	}
	now := m.cfg.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if before := m.roster.RecordContact(h.Peer.ID, endpoint, now); now.Sub(before) > m.cfg.Times.PeerTimeout {
		m.Wake() // it is new, or was gone
	}
	for _, s := range h.Known {
		m.roster.RecordMention(s)
	}
}

// allPeers returns all peers that were ever heard from or mentioned.
func (m *Manager) allPeers() []etcd.Sighting {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.roster.Since(time.Time{})
}

func (m *Manager) hello() peer.Hello {
	return peer.Hello{Cluster: m.cfg.Cluster, Peer: m.self(), Known: m.healthy()}
}

// claim asks every healthy peer to accept that this one leads. All of them must.
func (m *Manager) claim(ctx context.Context) ([]etcd.Peer, error) {
	healthy := m.healthy()
	if m.lead.token == "" {
		m.lead.token = m.cfg.Token()
	}
	c := etcd.Claim{Leader: m.cfg.Self.ID, Token: m.lead.token}
	for _, s := range healthy {
		c.Peers = append(c.Peers, s.ID)
	}
	peers := make([]etcd.Peer, len(healthy))
	errs := make([]error, len(healthy))
	m.cfg.Each(len(healthy), func(i int) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		s := healthy[i]
		p, err := m.serviceOf(s).Claim(ctx, c)
		if err == nil && p.ID != s.ID {
			err = fmt.Errorf("%s is now at %s", p.ID, s.Endpoint)
		}
		p.Endpoint = s.Endpoint // where it was reached, whatever it reports
		peers[i], errs[i] = p, err
	})
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", healthy[i].ID, err)
		}
		m.mu.Lock()
		m.roster.RecordContact(healthy[i].ID, healthy[i].Endpoint, m.cfg.Now())
		m.mu.Unlock()
	}
	return peers, nil
}

// serviceOf returns the service of a peer: this manager itself, or another over the network.
func (m *Manager) serviceOf(s etcd.Sighting) peer.Service {
	if s.ID == m.cfg.Self.ID {
		return m
	}
	return m.cfg.Link.Service(s.Endpoint)
}
