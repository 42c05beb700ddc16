package daemon

import (
	"net"
	"net/netip"
	"sync"
)

const (
	// mostConnections are open at a time, and mostOfAddress of them from one address.
	// Each holds memory and a descriptor before anybody has said a word.
	mostConnections, mostOfAddress = 1024, 128
)

// bounded is a listener that closes connections beyond its bounds at once.
type bounded struct {
	net.Listener
	most, each int

	mu   sync.Mutex
	all  int
	open map[netip.Addr]int
}

func newBounded(l net.Listener, most, each int) *bounded {
	return &bounded{Listener: l, most: most, each: each, open: map[netip.Addr]int{}}
}

// Accept returns the next connection within the bounds.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		at, err := netip.ParseAddrPort(c.RemoteAddr().String())
		if err == nil && b.take(at.Addr()) {
			return &counted{Conn: c, give: sync.OnceFunc(func() { b.give(at.Addr()) })}, nil
		}
		_ = c.Close() // nobody is served on it
	}
}

func (b *bounded) take(from netip.Addr) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all >= b.most || b.open[from] >= b.each {
		return false
	}
	b.all++
	b.open[from]++
	return true
}

func (b *bounded) give(from netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all--
	if b.open[from]--; b.open[from] == 0 {
		delete(b.open, from)
	}
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	give func()
}

func (c *counted) Close() error {
	c.give()
	return c.Conn.Close()
}
