package daemon

import (
	"net"
	"net/netip"
	"slices"
	"sync"

	"kops.local/kops/internal/node/senders"
)

const (
	// maxConnections may be open at a time, and maxPerSender of them from one sender. Each uses
	// memory and a file descriptor before the client has sent anything.
	maxConnections, maxPerSender = 1024, 128
)

// boundedListener is a listener that keeps the number of connections within its limits. A sender's
// connections beyond its limit are closed at once. When there are too many in all, the sender with
// the most loses its oldest one, so that a few senders cannot keep the others out.
type boundedListener struct {
	net.Listener
	max, maxPerSender int

	mu   sync.Mutex
	all  int
	open map[netip.Prefix][]*countedConn // the latest last
}

func newBounded(l net.Listener, max, maxPerSender int) *boundedListener {
	return &boundedListener{Listener: l, max: max, maxPerSender: maxPerSender, open: map[netip.Prefix][]*countedConn{}}
}

// Accept returns the next connection within the limits.
func (b *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		counted := &countedConn{Conn: c, from: senders.Network(c.RemoteAddr().String()), of: b}
		accepted, removed := b.add(counted)
		if removed != nil {
			_ = removed.Conn.Close() // its server closes it again
		}
		if accepted {
			return counted, nil
		}
		_ = c.Close() // it serves no request
	}
}

// add counts a connection, unless that exceeds a limit. It returns the connection to close in its
// place.
func (b *boundedListener) add(c *countedConn) (added bool, removed *countedConn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := len(b.open[c.from])
	if own >= b.maxPerSender {
		return false, nil
	}
	if b.all >= b.max {
		var most []*countedConn
		for _, list := range b.open {
			if len(list) > len(most) {
				most = list
			}
		}
		if len(most) <= own+1 { // it would be the one with the most
			return false, nil
		}
		removed = most[0]
		b.drop(removed)
	}
	b.all++
	b.open[c.from] = append(b.open[c.from], c)
	return true, removed
}

// drop no longer counts a connection, if it still does.
func (b *boundedListener) drop(c *countedConn) {
	list := b.open[c.from]
	i := slices.Index(list, c)
	if i < 0 {
		return
	}
	b.all--
	if b.open[c.from] = slices.Delete(list, i, i+1); len(list) == 1 {
		delete(b.open, c.from)
	}
}

// countedConn is a connection that counts until it is closed.
type countedConn struct {
	net.Conn
	from netip.Prefix
	of   *boundedListener
}

func (c *countedConn) Close() error {
	c.of.mu.Lock()
	c.of.drop(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
