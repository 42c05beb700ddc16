package vtpm

import (
	"context"
	"sync"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
)

const (
	// askedPerSecond and askedAtOnce bound the questions about instances that have proven
	// nothing. Each is two requests, of a quota of some 1500 a minute that the project shares.
	askedPerSecond, askedAtOnce = 4, 60
	// answerAge is how long nobody without a proof makes Compute answer again.
	answerAge = 5 * time.Second
	// mostAnswers bounds the memory for answers.
	mostAnswers = 1 << 13
)

// answers are what Compute said of instances, by zone and name. They outlive answerAge, as
// a machine proves itself by the key in them before Compute is asked.
type answers struct {
	mu sync.Mutex
	of map[[2]string]answer
}

// answer is an instance, or that there is none.
type answer struct {
	Instance
	gone bool
	at   time.Time
}

func (a *answers) get(key [2]string) (answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	got, ok := a.of[key]
	return got, ok
}

func (a *answers) put(key [2]string, got answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil || len(a.of) >= mostAnswers {
		a.of = map[[2]string]answer{}
	}
	a.of[key] = got
}

// instance returns the instance that a claim names. Compute is asked about a machine that
// signed with the key which its instance had before, and otherwise as often as the bucket
// of all unproven requests allows; the error then is bootstrap.ErrBusy.
func (v *Verifier) instance(ctx context.Context, c claim, t token) (Instance, error) {
	key, now := [2]string{c.Zone, c.Instance}, v.Now()
	last, asked := v.answers.get(key)
	proven := asked && !last.gone && checkSignature(t, last.Key) == nil
	recent := asked && now.Sub(last.at) < answerAge
	if !proven && (recent || !v.unproven.Take(now, askedPerSecond, askedAtOnce)) {
		// An instance may be new, and one of its name older than the last answer: ask again later.
		return Instance{}, bootstrap.ErrBusy
	}
	i, err := v.Instances.Instance(ctx, c.Zone, c.Instance)
	if err == nil || fault.Is(err, fault.Gone) {
		v.answers.put(key, answer{i, err != nil, now})
	}
	return i, err
}
