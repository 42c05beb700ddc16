package volume

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A list of machines is loaded again after remembered, or after fresh if a machine is missing.
const (
	remembered = time.Minute
	fresh      = 10 * time.Second
)

// Addresses are the addresses of all machines of a cluster. They are kept for a while, for clouds that list
// the machines in one response, and limit requests.
type Addresses struct {
	// Load returns the addresses by machine, each machine's primary address first.
	Load func(context.Context) (map[string][]string, error)
	Now  func() time.Time

	mu     sync.Mutex
	known  map[string][]string
	loaded time.Time
}

// Locate is as in Disks.
func (a *Addresses) Locate(ctx context.Context, attached []LabelledDisk) (map[string][]string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	isMissing := func(d LabelledDisk) bool { _, isKnown := a.known[d.Machine]; return !isKnown }
	if age := a.Now().Sub(a.loaded); age >= remembered || age >= fresh && slices.ContainsFunc(attached, isMissing) {
		known, err := a.Load(ctx)
		if err != nil {
			return nil, err
		}
		a.known, a.loaded = known, a.Now()
	}
	out := map[string][]string{}
	for _, d := range attached {
		if at := a.known[d.Machine]; len(at) > 0 {
			out[d.ID] = at
		}
	}
	return out, nil
}
