package bootstrap

import (
	"net/netip"
	"sync"
	"time"
)

// Bucket limits how many requests unproven senders together can make a Verifier send to a
// service with a shared quota. No sender may hold more of the bucket than it leaves to the others,
// so that a few cannot keep the others out. The zero value is ready to use.
type Bucket struct {
	mu        sync.Mutex
	used      float64
	by        map[netip.Prefix]float64 // the parts of used
	updatedAt time.Time
}

// forgotten is the part of a sender that is so small that it no longer counts.
const forgotten = 0.01

// Take reports whether a request of a sender may be sent now, and counts it: rate per second in
// the long run, and burst at once; half of it if there is only one sender.
func (b *Bucket) Take(now time.Time, from netip.Prefix, rate, burst float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.by == nil {
		b.by = map[netip.Prefix]float64{}
	}
	if now.After(b.updatedAt) {
		left := max(0, b.used-now.Sub(b.updatedAt).Seconds()*rate)
		for s := range b.by {
			if b.by[s] *= left / b.used; b.by[s] < forgotten {
				delete(b.by, s)
			}
		}
		b.used, b.updatedAt = left, now
	}
	if b.by[from]+1 > burst-b.used {
		return false
	}
	b.used++
	b.by[from]++
	return true
}
