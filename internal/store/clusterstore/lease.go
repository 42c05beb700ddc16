package clusterstore

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// LeaseRenewal is how often a lease is renewed.
const LeaseRenewal = 15 * time.Second

const (
	// leaseTerm is how long a lease holds after it was last renewed.
	leaseTerm = 60 * time.Second
	// leaseRetry is how soon a renewal that failed is made again.
	leaseRetry = 3 * time.Second
	// leaseAnswer is how long a renewal may take. One that hangs is cut off early enough
	// for another, on a connection that is not dead, within the term.
	leaseAnswer = 20 * time.Second
	// leaseSkew is how long after its end a lease is left alone, as clocks differ.
	leaseSkew = 20 * time.Second
	// leaseFarewell is how long giving a lease back may take.
	leaseFarewell = 5 * time.Second
	// leaseWatch is how long a lease that has ended is watched before it is taken, as a
	// holder that lives renews it meanwhile, and leaseWrong how wrong a clock may be:
	// S3 refuses requests of one that is wrong by more.
	leaseWatch, leaseWrong = 20 * time.Second, 15 * time.Minute
	// leaseTries is how often a write that collides with other writes is tried.
	leaseTries = 10
)

// Holder is who changes a cluster.
type Holder struct {
	User    string `json:"user,omitempty"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Command string `json:"command,omitempty"` // the command line
	// Process identifies the process to others on its machine; see package process. May be empty.
	Process string `json:"process,omitempty"`
}

// LeaseState is what the store says of the lease of a cluster.
type LeaseState struct {
	Holder
	// Fence is a number that grows with each change of holder.
	Fence int64 `json:"fence"`
	// ID tells apart holders that are otherwise alike.
	ID       string    `json:"id,omitempty"`
	Acquired time.Time `json:"acquired,omitzero"`
	Renewed  time.Time `json:"renewed,omitzero"`
	Expires  time.Time `json:"expires,omitzero"`
	// Free says that nobody holds the lease; the rest is of the last holder.
	Free bool `json:"free,omitempty"`
}

// Held is the error of a command that finds the cluster in the hands of another.
type Held struct {
	Cluster string
	State   LeaseState
	Age     time.Duration // since it was acquired
	Idle    time.Duration // since it was renewed
}

func (h *Held) Error() string {
	return fmt.Sprintf("cluster %s is being changed by another command: %s", h.Cluster, h.Describe())
}

// Describe says who holds the lease, and for how long.
func (h *Held) Describe() string {
	s := h.State
	return fmt.Sprintf("%q of %s on %s (process %d) has held its lease for %v, and renewed it %v ago",
		s.Command, s.User, s.Host, s.PID, h.Age.Round(time.Second), h.Idle.Round(time.Second))
}

// Unwrap gives the error its class and remedy.
func (h *Held) Unwrap() error {
	return fault.Wrap(fault.Conflict, errors.New("the lease is held"),
		"wait until it is done; if that command is dead, run: kops toolbox lock break --name "+h.Cluster+" --yes")
}

// ErrLost is the cause with which the context of a lease ends when it is no longer ours.
var ErrLost = errors.New("the lease of the cluster was lost")

// Lease is the right to change one cluster, until it is released or lost.
type Lease struct {
	s       *Store
	cluster string
	cancel  context.CancelCauseFunc
	renewed chan struct{} // closed when no more renewals come

	mu      sync.Mutex
	first   bool // there was none before it, and nothing was recorded under it
	state   LeaseState
	version store.Version
	over    bool
}

// Acquire takes the lease of a cluster, which need not exist yet. The error is a
// *Held when another command has it.
//
// The lease is renewed in the background until Release, which must be called. When
// it is lost, because renewal was impossible for its whole term or because somebody
// broke it, the returned context ends with the cause ErrLost.
func (s *Store) Acquire(ctx context.Context, cluster string, who Holder, watch Watch) (context.Context, *Lease, error) {
	if err := checkName(cluster); err != nil {
		return nil, nil, err
	}
	id := make([]byte, 8)
	if _, err := io.ReadFull(s.cfg.Random, id); err != nil {
		return nil, nil, fmt.Errorf("acquire the lease of cluster %s: %w", cluster, err)
	}
	state, version, err := s.take(ctx, cluster, who, hex.EncodeToString(id), watch)
	if err != nil {
		return nil, nil, err
	}
	l := &Lease{s: s, cluster: cluster, state: state, version: version, first: state.Fence == 1, renewed: make(chan struct{})}
	held, cancel := context.WithCancelCause(ctx)
	l.cancel = cancel
	// A renewal may hang; soon after the term the context ends all the same.
	hung := time.AfterFunc(l.left()+leaseRetry, func() { _ = l.expire(errors.New("the state store does not answer")) })
	go func() {
		defer close(l.renewed)
		defer hung.Stop()
		l.keep(held, hung)
	}()
	return held, l, nil
}

// Watch is called when Acquire begins to watch a lease that has ended, because its holder may
// still be alive, and with the time this takes; the function it returns is called afterwards.
type Watch func(h *Held, d time.Duration) (over func())

// take writes our lease if nobody else's stands.
func (s *Store) take(ctx context.Context, cluster string, who Holder, id string, watch Watch) (LeaseState, store.Version, error) {
	var watched LeaseState
	var failed error
	for range leaseTries {
		old, version, err := s.lease(ctx, cluster)
		if err != nil {
			return LeaseState{}, "", err
		}
		now := s.now()
		switch {
		case version != "" && old.ID == id: // an earlier write of ours arrived after all
			return old, version, nil
		case version != "" && old.renewedSince(watched): // just now, whatever the clocks say
			return LeaseState{}, "", newHeld(cluster, old, old.Renewed)
		case version != "" && s.stands(old, now):
			return LeaseState{}, "", newHeld(cluster, old, now)
		case version != "" && s.mayLive(old, now) && old.ID != watched.ID:
			watched = old
			over := func() {}
			if watch != nil {
				over = watch(newHeld(cluster, old, now), leaseWatch)
			}
			err := s.cfg.Sleep(ctx, leaseWatch)
			over()
			if err != nil {
				return LeaseState{}, "", fmt.Errorf("acquire the lease of cluster %s: %w", cluster, err)
			}
			continue
		}
		state := LeaseState{Holder: who, Fence: old.Fence + 1, ID: id, Acquired: now, Renewed: now, Expires: now.Add(leaseTerm)}
		var v store.Version
		v, failed = s.writeLease(ctx, cluster, state, store.PutOptions{IfAbsent: version == "", IfVersion: version})
		if failed == nil {
			return state, v, nil
		}
		if !fault.Is(failed, fault.Conflict) && !fault.Is(failed, fault.Lost) {
			break
		}
		// Somebody else was quicker, or the answer did not arrive; look whose it is.
	}
	if failed == nil || fault.Is(failed, fault.Conflict) {
		return LeaseState{}, "", restless(cluster)
	}
	return LeaseState{}, "", fmt.Errorf("acquire the lease of cluster %s: %w", cluster, failed)
}

// restless is the error of one who finds the lease changed at every try.
func restless(cluster string) error {
	return fault.Wrap(fault.Conflict, fmt.Errorf("the lease of cluster %s changed at each of %d tries to write it", cluster, leaseTries),
		"check which other commands are running; if no other is, the state store does not enforce conditional writes")
}

// now is the time by the clock on the wall, which goes on while the machine sleeps.
func (s *Store) now() time.Time { return s.cfg.Now().UTC().Round(0) }

// renewedSince reports that it is the same holder's as old, who lives.
func (l LeaseState) renewedSince(old LeaseState) bool {
	return !l.Free && l.ID == old.ID && l.Fence == old.Fence && !l.Renewed.Equal(old.Renewed)
}

// stands reports whether a lease keeps others out, now and regardless of its holder.
func (s *Store) stands(l LeaseState, now time.Time) bool {
	return s.mayLive(l, now) && now.Before(l.Expires.Add(leaseSkew))
}

// mayLive reports whether a lease, even one that has ended, may belong to a living
// holder: its clock, or ours, may be wrong.
func (s *Store) mayLive(l LeaseState, now time.Time) bool {
	return !l.Free && !(l.Process != "" && s.cfg.Gone(l.Process)) && now.Sub(l.Expires) < leaseWrong
}

// newHeld describes a lease at now, or at its renewal if that is later: another's clock may be
// ahead.
func newHeld(cluster string, l LeaseState, now time.Time) *Held {
	if now.Before(l.Renewed) {
		now = l.Renewed
	}
	return &Held{Cluster: cluster, State: l, Age: now.Sub(l.Acquired), Idle: now.Sub(l.Renewed)}
}

// lease reads the lease of a cluster; the version is empty when there is none.
// One that cannot be understood counts as free, so that a damaged file stops nobody for ever.
func (s *Store) lease(ctx context.Context, cluster string) (LeaseState, store.Version, error) {
	data, v, err := s.own(cluster).Get(ctx, leaseKey)
	if fault.Is(err, fault.Gone) {
		return LeaseState{Free: true}, "", nil
	}
	if err != nil {
		return LeaseState{}, "", fmt.Errorf("read the lease of cluster %s: %w", cluster, err)
	}
	var l LeaseState
	if err := json.Unmarshal(data, &l); err != nil {
		return LeaseState{Free: true}, v, nil
	}
	return l, v, nil
}

// Holding returns who holds the lease of a cluster, or nil when nobody does. A holder
// whose lease has ended counts while it may be that its clock, or ours, is wrong.
func (s *Store) Holding(ctx context.Context, cluster string) (*Held, error) {
	if err := checkName(cluster); err != nil {
		return nil, err
	}
	now := s.now()
	l, v, err := s.lease(ctx, cluster)
	if err != nil || v == "" || !s.mayLive(l, now) {
		return nil, err
	}
	return newHeld(cluster, l, now), nil
}

// Break frees the lease of a cluster, no matter who holds it, and records that. A holder that is
// still alive notices within a quarter of a minute, and at its next Check.
func (s *Store) Break(ctx context.Context, who Holder, cluster string) error {
	if err := checkName(cluster); err != nil {
		return err
	}
	for range leaseTries {
		l, v, err := s.lease(ctx, cluster)
		if err != nil || v == "" || l.Free {
			return err
		}
		l.Free, l.Fence = true, l.Fence+1
		_, err = s.writeLease(ctx, cluster, l, store.PutOptions{IfVersion: v})
		if err == nil {
			return s.noteBreak(ctx, who, cluster, l)
		}
		if !fault.Is(err, fault.Conflict) {
			return err
		}
		// It was renewed in between; once more.
	}
	return restless(cluster)
}

// noteBreak records that a lease was broken, unless it was of no cluster any more.
func (s *Store) noteBreak(ctx context.Context, who Holder, cluster string, l LeaseState) error {
	c, err := s.Load(ctx, cluster)
	if err != nil {
		return nil //nolint:nilerr // the lease is free, which counts more than its place in the history
	}
	return s.Note(ctx, who, c, fmt.Sprintf("broke the lease of %q, of %s on %s (process %d)", l.Command, l.User, l.Host, l.PID))
}

// writeLease writes the lease of a cluster, on a condition.
func (s *Store) writeLease(ctx context.Context, cluster string, l LeaseState, o store.PutOptions) (store.Version, error) {
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return "", err
	}
	return s.own(cluster).Put(ctx, leaseKey, append(data, '\n'), o)
}

// Fence is the number of this holder, higher than the number of any holder before it.
func (l *Lease) Fence() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Fence
}

// Check asks the store whether the lease is still ours, and returns an error that
// wraps ErrLost when it is not. It belongs before writes that nothing else guards.
func (l *Lease) Check(ctx context.Context) error {
	there, v, err := l.s.lease(ctx, l.cluster)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || v == "" || there.Free || there.ID != l.state.ID || there.Fence != l.state.Fence {
		return l.lost(there)
	}
	return nil
}

// Hold returns nil while the lease is ours by the clock on the wall. That clock goes on
// while the machine sleeps, and the timers which end the lease's context do not: a
// process that wakes up late learns here that its term has passed. It renews the
// lease then, if nobody else has taken it, and otherwise ends the lease's context.
// Where the store keeps conditions by waiting only, it asks the store each time: a late
// write of another may have taken the lease. It belongs before each change of what the
// lease guards.
func (l *Lease) Hold(ctx context.Context) error {
	if l.left() > 0 {
		return l.overtaken(ctx)
	}
	err := l.renew(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrLost):
		l.cancel(err)
	case l.left() <= 0: // else another renewal was made meanwhile
		err = l.expire(err)
	default:
		return nil
	}
	return err
}

// overtaken ends the lease's context when the store is one of Timed conditions and
// another holds the lease there. A store that does not answer says nothing: the lease is
// ours until its term ends.
func (l *Lease) overtaken(ctx context.Context) error {
	if !l.s.cfg.State.About().Timed {
		return nil
	}
	err := l.Check(ctx)
	if !errors.Is(err, ErrLost) {
		return nil
	}
	l.cancel(err)
	return err
}

// lost says to whom the lease went.
func (l *Lease) lost(there LeaseState) error {
	err := fmt.Errorf("cluster %s: %w", l.cluster, ErrLost)
	if !there.Free && there.ID != l.state.ID {
		err = fmt.Errorf("%w to %q of %s on %s", err, there.Command, there.User, there.Host)
	}
	return fault.Wrap(fault.Permanent, err, "run the command again when no other command is running")
}

// keep renews the lease until ctx ends, or ends ctx when the lease is lost. It
// puts off hung with each renewal.
func (l *Lease) keep(ctx context.Context, hung *time.Timer) {
	wait := LeaseRenewal
	for {
		if l.s.cfg.Sleep(ctx, wait) != nil {
			return
		}
		switch err := l.renew(ctx); {
		case err == nil:
			wait = LeaseRenewal
			hung.Reset(l.left() + leaseRetry)
		case errors.Is(err, ErrLost):
			l.cancel(err)
			return
		case ctx.Err() != nil:
			return
		default:
			if l.left() <= 0 {
				_ = l.expire(err) // the context tells it
				return
			}
			wait = leaseRetry
		}
	}
}

// left is how much of the term is left.
func (l *Lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Expires.Sub(l.s.now())
}

// expire ends the context of a lease whose term passed because of why, and returns the cause.
func (l *Lease) expire(why error) error {
	err := fmt.Errorf("%w: it could not be renewed: %w", l.lost(LeaseState{Free: true}), why)
	l.cancel(err)
	return err
}

// renew writes a later end of the lease.
func (l *Lease) renew(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over { // it was given back; another write would take it again
		return l.lost(LeaseState{Free: true})
	}
	ctx, cancel := context.WithTimeout(ctx, leaseAnswer)
	defer cancel()
	next := l.state
	next.Renewed = l.s.now()
	next.Expires = next.Renewed.Add(leaseTerm)
	return l.write(ctx, next)
}

// write replaces our lease. A conflict may be with a write of our own whose answer
// was lost; then the lease is still ours. The mutex is held.
func (l *Lease) write(ctx context.Context, next LeaseState) error {
	v, err := l.s.writeLease(ctx, l.cluster, next, store.PutOptions{IfVersion: l.version})
	if fault.Is(err, fault.Conflict) {
		there, now, getErr := l.s.lease(ctx, l.cluster)
		if getErr != nil {
			return getErr
		}
		if now == "" || there.Free || there.ID != l.state.ID || there.Fence != l.state.Fence {
			return l.lost(there)
		}
		v, err = l.s.writeLease(ctx, l.cluster, next, store.PutOptions{IfVersion: now})
	}
	if err != nil {
		return err
	}
	l.state, l.version = next, v
	return nil
}

// end stops the renewals, and reports whether this call was the one that did.
func (l *Lease) end() bool {
	l.cancel(context.Canceled)
	<-l.renewed
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.over
	l.over = true
	return first
}

// Release gives the lease back, also when ctx has ended. It may be called more than
// once. The first lease of a cluster that does not exist is removed instead.
func (l *Lease) Release(ctx context.Context) error {
	if !l.end() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseFarewell)
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first {
		_, _, err := l.s.folder(l.cluster).Get(ctx, layout.Config)
		if fault.Is(err, fault.Gone) {
			err = l.s.own(l.cluster).Delete(ctx, leaseKey, store.DeleteOptions{IfVersion: l.version})
			if err == nil {
				return nil
			}
		}
	}
	free := l.state
	free.Free = true
	if err := l.write(ctx, free); err != nil && !errors.Is(err, ErrLost) {
		return fmt.Errorf("release the lease of cluster %s: %w", l.cluster, err)
	}
	return nil
}

// recorded says that something was recorded under the lease, which stays with it.
func (l *Lease) recorded() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first = false
}

// discard ends the lease with the cluster that it was for: it and the last objects
// of the cluster, by their keys in the state store, are removed with one request
// where the store can.
func (l *Lease) discard(ctx context.Context, keys ...string) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx) // the lease may be another's
	}
	if !l.end() {
		return l.Check(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseFarewell)
	defer cancel()
	keys = append([]string{ownFolder + l.cluster + "/" + leaseKey}, keys...)
	if err := store.DeleteAll(ctx, l.s.cfg.State, keys); err != nil {
		return fmt.Errorf("delete the last files of cluster %s: %w", l.cluster, err)
	}
	return nil
}
