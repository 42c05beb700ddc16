package vtpm

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
)

const (
	// lookupsPerSecond and askedAtOnce limit the lookups of instances for unproven requests. Each
	// lookup is two requests, which count towards a quota of the project, about 1500 per minute.
	lookupsPerSecond, askedAtOnce = 4, 60
	// answerAge is the minimum interval between lookups of an instance for unproven requests.
	answerAge = 5 * time.Second
	// maxAnswers bounds the cache of lookups.
	maxAnswers = 1 << 13
)

// answerCache caches what Compute Engine returned about instances, by zone and name. Entries are used
// beyond answerAge, because a machine can be proven by the key in them before Compute Engine is
// queried.
type answerCache struct {
	mu      sync.Mutex
	entries map[[2]string]answer
}

// answer is an instance, or the fact that it does not exist.
type answer struct {
	Instance
	missing  bool
	received time.Time
}

func (a *answerCache) get(key [2]string) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	got, ok := a.entries[key]
	return got, ok
}

func (a *answerCache) put(key [2]string, got answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.entries == nil || len(a.entries) >= maxAnswers {
		a.entries = map[[2]string]answer{}
	}
	a.entries[key] = got
}

// instance returns the instance that the claim of a sender names. Compute Engine is always queried if the
// signature matches the instance's cached key, and otherwise only as often as the bucket of all
// unproven requests allows; if it does not, the error is bootstrap.ErrBusy.
func (v *Verifier) instance(ctx context.Context, from netip.Prefix, c claim, t token) (Instance, error) {
	key, now := [2]string{c.Zone, c.Instance}, v.Now()
	last, asked := v.cache.get(key)
	proven := asked && !last.missing && checkSignature(t, last.Key) == nil
	recent := asked && now.Sub(last.received) < answerAge
	if !proven && (recent || !v.lookups.Take(now, from, lookupsPerSecond, askedAtOnce)) {
		// The instance may be newer than the last response about its name: the machine must retry
		// later.
		return Instance{}, bootstrap.ErrBusy
	}
	i, err := v.Instances.Instance(ctx, c.Zone, c.Instance)
	if err == nil || fault.Is(err, fault.Gone) {
		v.cache.put(key, answer{i, err != nil, now})
	}
	return i, err
}
