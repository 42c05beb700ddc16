package controller

import (
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"kops.local/kops/internal/node/senders"
)

const (
	// maxAtOnce is how many requests are processed at a time. Each may cause a request
	// to the cloud that takes 10 s and counts against the whole account's quota.
	maxAtOnce = 32
	// maxPerSender is how many of them may come from one sender, so that no sender keeps the others
	// out.
	maxPerSender = 8
	// perSecond and burst limit the requests of one sender. A joining machine sends
	// five; a load balancer may be the sender for many machines.
	perSecond, burst = 20, 100
	// maxSenders limits how many senders are tracked; all others share one limit.
	maxSenders = 1 << 14
	// sweepPeriod is how often senders are dropped whose limit has fully recovered.
	sweepPeriod = time.Second
	// full is how soon a request should be repeated that was refused because all slots were taken.
	full = time.Second
)

// Gate limits the work that unproven senders can cause. It must come before
// everything that costs more than reading the request.
type Gate struct {
	now   func() time.Time
	limit rate.Limit // per sender

	mu      sync.Mutex
	busy    int
	senders map[netip.Prefix]*sender
	others  *sender // all senders beyond maxSenders
	sweptAt time.Time
}

// sender is the state of one sender.
type sender struct {
	rate *rate.Limiter
	busy int
}

// NewGate returns a gate that has not let any request pass yet.
func NewGate(now func() time.Time) *Gate {
	return newGate(now, perSecond)
}

func newGate(now func() time.Time, limit rate.Limit) *Gate {
	g := &Gate{now: now, limit: limit, senders: map[netip.Prefix]*sender{}}
	g.others = g.newSender()
	return g
}

func (g *Gate) newSender() *sender { return &sender{rate: rate.NewLimiter(g.limit, burst)} }

// refuse answers a request that was not let pass.
func (g *Gate) refuse(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	http.Error(w, "too many requests; try again later", http.StatusTooManyRequests)
}

// enter lets a request from a remote address, host:port, pass: the caller must call leave, once or
// more, when the work for the request is done, and before its answer is sent: how long that takes
// is up to the receiver. If leave is nil the request was not let pass, and wait is the time until
// the next attempt.
func (g *Gate) enter(remote string) (leave func(), wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	s := g.sender(senders.Network(remote), now)
	turn := s.rate.ReserveN(now, 1)
	if wait := turn.DelayFrom(now); wait > 0 {
		turn.CancelAt(now)
		return nil, wait
	}
	if g.busy >= maxAtOnce || s.busy >= maxPerSender {
		return nil, full
	}
	g.busy++
	s.busy++
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.busy--
		s.busy--
	}), 0
}

// sender returns the sender of an address, or the one that all senders beyond the maximum share.
func (g *Gate) sender(from netip.Prefix, now time.Time) *sender {
	if s := g.senders[from]; s != nil {
		return s
	}
	if len(g.senders) >= maxSenders && now.Sub(g.sweptAt) >= sweepPeriod {
		g.sweptAt = now
		for p, s := range g.senders { // a client with a recovered limit is like a new one
			if s.busy == 0 && s.rate.TokensAt(now) >= burst {
				delete(g.senders, p)
			}
		}
	}
	if len(g.senders) >= maxSenders {
		return g.others
	}
	s := g.newSender()
	g.senders[from] = s
	return s
}
