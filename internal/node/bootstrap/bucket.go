package bootstrap

import (
	"sync"
	"time"
)

// Bucket bounds what all senders together can make a Verifier ask of a service whose quota
// others share, before they have proven anything. The zero value is ready to use.
type Bucket struct {
	mu   sync.Mutex
	used float64
	at   time.Time
}

// Take reports whether a question may be asked now, and counts it: rate a second in the
// long run, and burst at once.
func (b *Bucket) Take(now time.Time, rate, burst float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.After(b.at) {
		b.used, b.at = max(0, b.used-now.Sub(b.at).Seconds()*rate), now
	}
	if b.used+1 > burst {
		return false
	}
	b.used++
	return true
}
