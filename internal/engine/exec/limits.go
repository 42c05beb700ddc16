package exec

import (
	"context"
	"slices"
	"sync"
)

// Limits limits how many calls of each API are under way concurrently, in the whole process. A
// throttled response halves an API's limit; every success raises it a little, up to its initial
// value.
type Limits struct {
	max    map[string]int
	others int

	mu   sync.Mutex
	apis map[string]*window
}

type window struct {
	bound, max float64
	busy       int
	waiting    []waiter // most urgent first
}

// waiter is a call that waits for its turn.
type waiter struct {
	turn    chan struct{}
	urgency int
}

// NewLimits returns limits with the given values by API, and others for all other APIs.
func NewLimits(most map[string]int, others int) *Limits {
	return &Limits{max: most, others: others, apis: map[string]*window{}}
}

func (l *Limits) window(api string) *window {
	w := l.apis[api]
	if w == nil {
		most := l.others
		if n, ok := l.max[api]; ok {
			most = n
		}
		w = &window{bound: float64(most), max: float64(most)}
		l.apis[api] = w
	}
	return w
}

// acquire waits for a turn: the most urgent waiter is served first, and among equals the one that
// has waited longest.
func (l *Limits) acquire(ctx context.Context, api string, urgency int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	w := l.window(api)
	if w.busy < int(w.bound) && len(w.waiting) == 0 {
		w.busy++
		l.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	at, _ := slices.BinarySearchFunc(w.waiting, urgency, func(w waiter, urgency int) int {
		if w.urgency >= urgency {
			return -1
		}
		return 1
	})
	w.waiting = slices.Insert(w.waiting, at, waiter{turn, urgency})
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		select {
		case <-turn: // a place was granted meanwhile; give it back
			w.busy--
			w.wake()
		default:
			w.remove(turn)
		}
		return ctx.Err()
	}
}

func (l *Limits) release(api string, throttled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.window(api)
	w.busy--
	if throttled {
		w.bound = max(1, w.bound/2)
	} else {
		w.bound = min(w.max, w.bound+1/w.bound)
	}
	w.wake()
}

// wake gives free places to the first waiters.
func (w *window) wake() {
	for w.busy < int(w.bound) && len(w.waiting) > 0 {
		w.busy++
		close(w.waiting[0].turn)
		w.waiting = w.waiting[1:]
	}
}

func (w *window) remove(turn chan struct{}) {
	w.waiting = slices.DeleteFunc(w.waiting, func(w waiter) bool { return w.turn == turn })
}
