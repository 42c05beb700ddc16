package controller

import (
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// mostAtOnce is how many requests are under way at a time. Each may cost a question
	// to the cloud that takes 10 s, and the quota of the whole account.
	mostAtOnce = 32
	// mostOfSender is how many of them are of one sender, so that none keeps the others out.
	mostOfSender = 8
	// perSecond and burst are how often one sender may ask. A machine that joins asks
	// five times; a load balancer may be the sender for many machines.
	perSecond, burst = 20, 100
	// mostSenders bounds the memory for senders; those beyond share one measure.
	mostSenders = 1 << 14
	// sweepPeriod is how often senders are forgotten whose measure is full again.
	sweepPeriod = time.Second
	// full is how soon a request that found everything taken should be repeated.
	full = time.Second
)

// Gate bounds what senders who have proven nothing yet can make the controller do.
// It must come before everything that costs more than reading the request.
type Gate struct {
	now   func() time.Time
	limit rate.Limit // of one sender

	mu      sync.Mutex
	busy    int
	senders map[netip.Prefix]*sender
	rest    *sender // all for whom there is no room
	swept   time.Time
}

// sender is one who asks.
type sender struct {
	rate *rate.Limiter
	busy int
}

// NewGate returns a gate that nobody has passed.
func NewGate(now func() time.Time) *Gate {
	return newGate(now, perSecond)
}

func newGate(now func() time.Time, limit rate.Limit) *Gate {
	g := &Gate{now: now, limit: limit, senders: map[netip.Prefix]*sender{}}
	g.rest = g.newSender()
	return g
}

func (g *Gate) newSender() *sender { return &sender{rate: rate.NewLimiter(g.limit, burst)} }

// refuse answers a request that may not pass.
func (g *Gate) refuse(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	http.Error(w, "too many requests; try again later", http.StatusTooManyRequests)
}

// enter lets a request of a remote address, host:port, pass: the caller must call leave at its
// end. If leave is nil the request may not pass, and wait is the time until the next try.
func (g *Gate) enter(remote string) (leave func(), wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	s := g.sender(origin(remote), now)
	turn := s.rate.ReserveN(now, 1)
	if wait := turn.DelayFrom(now); wait > 0 {
		turn.CancelAt(now)
		return nil, wait
	}
	if g.busy >= mostAtOnce || s.busy >= mostOfSender {
		return nil, full
	}
	g.busy++
	s.busy++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.busy--
		s.busy--
	}, 0
}

// sender finds the one of an address, or the one that all share for whom there is no room.
func (g *Gate) sender(from netip.Prefix, now time.Time) *sender {
	if s := g.senders[from]; s != nil {
		return s
	}
	if len(g.senders) >= mostSenders && now.Sub(g.swept) >= sweepPeriod {
		g.swept = now
		for p, s := range g.senders { // a client with a full measure is like a new one
			if s.busy == 0 && s.rate.TokensAt(now) >= burst {
				delete(g.senders, p)
			}
		}
	}
	if len(g.senders) >= mostSenders {
		return g.rest
	}
	s := g.newSender()
	g.senders[from] = s
	return s
}

// origin is whom a remote address stands for: with IPv6 a range of 80 bits, which a
// machine of AWS has for its pods.
func origin(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{} // no address of a connection; all such count as one
	}
	a, bits := at.Addr().Unmap().WithZone(""), 32
	if a.Is6() {
		bits = 80
	}
	return netip.PrefixFrom(a, bits).Masked()
}
