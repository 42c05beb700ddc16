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
	// leaseRetry is how soon a failed renewal is retried.
	leaseRetry = 3 * time.Second
	// leaseAnswer is the timeout of a renewal. One that hangs is cancelled early enough
	// for another, on a new connection, within the term.
	leaseAnswer = 20 * time.Second
	// leaseSkew is how long after its expiry a lease is left alone, because clocks differ.
	leaseSkew = 20 * time.Second
	// leaseFarewell is how long releasing a lease may take.
	leaseFarewell = 5 * time.Second
	// leaseWatch is how long an expired lease is watched before it is taken, because a
	// live holder renews it meanwhile. leaseWrong is how wrong a clock may be: S3
	// rejects requests if it is wrong by more.
	leaseWatch, leaseWrong = 20 * time.Second, 15 * time.Minute
	// leaseTries is how often a write that conflicts with other writes is tried.
	leaseTries = 10
)

// Holder identifies who changes a cluster.
type Holder struct {
	User    string `json:"user,omitempty"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Command string `json:"command,omitempty"` // the command line
	// Process identifies the process to others on its machine; see package process. May be empty.
	Process string `json:"process,omitempty"`
}

// LeaseState is the stored state of a cluster's lease.
type LeaseState struct {
	Holder
	// Fence is a number that grows with each change of holder.
	Fence int64 `json:"fence"`
	// ID distinguishes holders that are otherwise equal.
	ID       string    `json:"id,omitempty"`
	Acquired time.Time `json:"acquired,omitzero"`
	Renewed  time.Time `json:"renewed,omitzero"`
	Expires  time.Time `json:"expires,omitzero"`
	// Free means that the lease is not held; the other fields describe the last holder.
	Free bool `json:"free,omitempty"`
}

// LeaseHeldError is the error of a command that finds the cluster's lease held by another.
type LeaseHeldError struct {
	Cluster string
	State   LeaseState
	Age     time.Duration // since it was acquired
	Idle    time.Duration // since it was renewed
}

func (h *LeaseHeldError) Error() string {
	return fmt.Sprintf("cluster %s is being changed by another command: %s", h.Cluster, h.Describe())
}

// Describe describes who holds the lease, and for how long.
func (h *LeaseHeldError) Describe() string {
	s := h.State
	return fmt.Sprintf("%q of %s on %s (process %d) has held its lease for %v, and renewed it %v ago",
		s.Command, s.User, s.Host, s.PID, h.Age.Round(time.Second), h.Idle.Round(time.Second))
}

// Unwrap gives the error its class and remedy.
func (h *LeaseHeldError) Unwrap() error {
	return fault.Wrap(fault.Conflict, errors.New("the lease is held"),
		"wait until it is done; if that command is dead, run: kops toolbox lock break --name "+h.Cluster+" --yes")
}

// ErrLost is the cause with which the context of a lost lease is cancelled.
var ErrLost = errors.New("the lease of the cluster was lost")

// Lease is the right to change one cluster, until it is released or lost.
type Lease struct {
	s       *Store
	cluster string
	cancel  context.CancelCauseFunc
	renewed chan struct{} // closed when there are no more renewals

	mu      sync.Mutex
	first   bool // there was no earlier lease, and nothing was recorded under this one
	state   LeaseState
	version store.Version
	ended   bool
}

// Acquire takes the lease of a cluster, which need not exist yet. The error is a
// *Held if another command holds it.
//
// The lease is renewed in the background until Release, which must be called. If it
// is lost, because no renewal succeeded for its whole term or because it was broken,
// the returned context is cancelled with the cause ErrLost.
func (s *Store) Acquire(ctx context.Context, cluster string, who Holder, watch Watch) (context.Context, *Lease, error) {
	if err := checkName(cluster); err != nil {
		return nil, nil, err
	}
	id := make([]byte, 8)
	if _, err := io.ReadFull(s.cfg.Random, id); err != nil {
		return nil, nil, fmt.Errorf("acquire the lease of cluster %s: %w", cluster, err)
	}
	state, version, err := s.writeOurLease(ctx, cluster, who, hex.EncodeToString(id), watch)
	if err != nil {
		return nil, nil, err
	}
	l := &Lease{s: s, cluster: cluster, state: state, version: version, first: state.Fence == 1, renewed: make(chan struct{})}
	held, cancel := context.WithCancelCause(ctx)
	l.cancel = cancel
	// A renewal may hang; the context is cancelled soon after the term nevertheless.
	hung := time.AfterFunc(l.remaining()+leaseRetry, func() { _ = l.expire(errors.New("the state store does not answer")) })
	go func() {
		defer close(l.renewed)
		defer hung.Stop()
		l.renewLoop(held, hung)
	}()
	return held, l, nil
}

// Watch is called when Acquire begins to watch an expired lease whose holder may still be
// alive, with the time that this takes; the function it returns is called afterwards.
type Watch func(h *LeaseHeldError, d time.Duration) (over func())

// writeOurLease writes our lease unless another holder's is in force.
func (s *Store) writeOurLease(ctx context.Context, cluster string, who Holder, id string, watch Watch) (LeaseState, store.Version, error) {
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
		case version != "" && old.isRenewalOf(watched): // just now, whatever the clocks say
			return LeaseState{}, "", newLeaseHeldError(cluster, old, old.Renewed)
		case version != "" && s.isInForce(old, now):
			return LeaseState{}, "", newLeaseHeldError(cluster, old, now)
		case version != "" && s.holderMayBeAlive(old, now) && old.ID != watched.ID:
			watched = old
			over := func() {}
			if watch != nil {
				over = watch(newLeaseHeldError(cluster, old, now), leaseWatch)
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
		// Another process was quicker, or the answer was lost; check whose lease it is.
	}
	if failed == nil || fault.Is(failed, fault.Conflict) {
		return LeaseState{}, "", unstableLeaseError(cluster)
	}
	return LeaseState{}, "", fmt.Errorf("acquire the lease of cluster %s: %w", cluster, failed)
}

// unstableLeaseError returns the error for a lease that changed at every attempt.
func unstableLeaseError(cluster string) error {
	return fault.Wrap(fault.Conflict, fmt.Errorf("the lease of cluster %s changed at each of %d tries to write it", cluster, leaseTries),
		"check which other commands are running; if there are none, the state store does not enforce conditional writes")
}

// now returns the wall-clock time, which continues while the machine sleeps.
func (s *Store) now() time.Time { return s.cfg.Now().UTC().Round(0) }

// isRenewalOf reports whether the lease has the same holder as old and was renewed,
// so that the holder is alive.
func (l LeaseState) isRenewalOf(old LeaseState) bool {
	return !l.Free && l.ID == old.ID && l.Fence == old.Fence && !l.Renewed.Equal(old.Renewed)
}

// isInForce reports whether a lease keeps others out at the given time.
func (s *Store) isInForce(l LeaseState, now time.Time) bool {
	return s.holderMayBeAlive(l, now) && now.Before(l.Expires.Add(leaseSkew))
}

// holderMayBeAlive reports whether the holder of a lease, even of an expired one, may be
// alive: its clock, or ours, may be wrong.
func (s *Store) holderMayBeAlive(l LeaseState, now time.Time) bool {
	return !l.Free && !(l.Process != "" && s.cfg.ProcessEnded(l.Process)) && now.Sub(l.Expires) < leaseWrong
}

// newLeaseHeldError describes a lease at now, or at its renewal if that is later, because the holder's
// clock may be ahead.
func newLeaseHeldError(cluster string, l LeaseState, now time.Time) *LeaseHeldError {
	if now.Before(l.Renewed) {
		now = l.Renewed
	}
	return &LeaseHeldError{Cluster: cluster, State: l, Age: now.Sub(l.Acquired), Idle: now.Sub(l.Renewed)}
}

// lease reads the lease of a cluster; the version is empty if there is none. One that cannot
// be parsed counts as free, so that a damaged file does not block everyone forever.
func (s *Store) lease(ctx context.Context, cluster string) (LeaseState, store.Version, error) {
	data, v, err := s.privateFolder(cluster).Get(ctx, leaseKey)
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

// LeaseHolder returns the holder of a cluster's lease, or nil if it is not held. An
// expired lease counts as held as long as its holder's clock, or ours, may be wrong.
func (s *Store) LeaseHolder(ctx context.Context, cluster string) (*LeaseHeldError, error) {
	if err := checkName(cluster); err != nil {
		return nil, err
	}
	now := s.now()
	l, v, err := s.lease(ctx, cluster)
	if err != nil || v == "" || !s.holderMayBeAlive(l, now) {
		return nil, err
	}
	return newLeaseHeldError(cluster, l, now), nil
}

// Break frees the lease of a cluster, whoever holds it, and records that. A holder that is still
// alive notices within 15 seconds, and at its next Check.
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
		// It was renewed meanwhile; try again.
	}
	return unstableLeaseError(cluster)
}

// noteBreak records that a lease was broken, unless the cluster no longer exists.
func (s *Store) noteBreak(ctx context.Context, who Holder, cluster string, l LeaseState) error {
	c, err := s.Load(ctx, cluster)
	if err != nil {
		return nil //nolint:nilerr // the lease is free, which matters more than its record in the history
	}
	return s.Note(ctx, who, c, fmt.Sprintf("broke the lease of %q, of %s on %s (process %d)", l.Command, l.User, l.Host, l.PID))
}

// writeLease writes the lease of a cluster, conditionally.
func (s *Store) writeLease(ctx context.Context, cluster string, l LeaseState, o store.PutOptions) (store.Version, error) {
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return "", err
	}
	return s.privateFolder(cluster).Put(ctx, leaseKey, append(data, '\n'), o)
}

// Fence returns the number of this holder, which is higher than that of any earlier holder.
func (l *Lease) Fence() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Fence
}

// Check reads the lease from the store, and returns an error that wraps ErrLost if it
// is no longer ours. Call it before writes that nothing else guards.
func (l *Lease) Check(ctx context.Context) error {
	current, v, err := l.s.lease(ctx, l.cluster)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || v == "" || current.Free || current.ID != l.state.ID || current.Fence != l.state.Fence {
		return l.lostError(current)
	}
	return nil
}

// Hold returns nil if the lease is ours by the wall clock. That clock continues while the machine
// sleeps; the timers that cancel the lease's context do not. A process that wakes up late finds out
// here that its term has passed: Hold then renews the lease, unless another holder has taken it,
// and otherwise cancels the lease's context. If the store enforces conditions only by waiting
// (About.Timed), Hold reads the lease each time, because another holder's late write may have
// replaced it. Call it before each change of what the lease guards.
func (l *Lease) Hold(ctx context.Context) error {
	if l.remaining() > 0 {
		return l.checkStillOurs(ctx)
	}
	err := l.renew(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrLost):
		l.cancel(err)
	case l.remaining() <= 0: // otherwise another renewal succeeded meanwhile
		err = l.expire(err)
	default:
		return nil
	}
	return err
}

// checkStillOurs cancels the lease's context if the store is Timed and another holder has the
// lease there. If the store does not answer, the lease remains ours until its term ends.
func (l *Lease) checkStillOurs(ctx context.Context) error {
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

// lostError returns the error for a lease that another holder has taken.
func (l *Lease) lostError(current LeaseState) error {
	err := fmt.Errorf("cluster %s: %w", l.cluster, ErrLost)
	if !current.Free && current.ID != l.state.ID {
		err = fmt.Errorf("%w to %q of %s on %s", err, current.Command, current.User, current.Host)
	}
	return fault.Wrap(fault.Permanent, err, "run the command again when no other command is running")
}

// renewLoop renews the lease until ctx is done, or cancels ctx if the lease is lost. Each
// renewal resets the timer hung.
func (l *Lease) renewLoop(ctx context.Context, hung *time.Timer) {
	wait := LeaseRenewal
	for {
		if l.s.cfg.Sleep(ctx, wait) != nil {
			return
		}
		switch err := l.renew(ctx); {
		case err == nil:
			wait = LeaseRenewal
			hung.Reset(l.remaining() + leaseRetry)
		case errors.Is(err, ErrLost):
			l.cancel(err)
			return
		case ctx.Err() != nil:
			return
		default:
			if l.remaining() <= 0 {
				_ = l.expire(err) // the context carries the cause
				return
			}
			wait = leaseRetry
		}
	}
}

// remaining returns the rest of the term.
func (l *Lease) remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Expires.Sub(l.s.now())
}

// expire cancels the context of a lease whose term ended because of why, and returns the cause.
func (l *Lease) expire(why error) error {
	err := fmt.Errorf("%w: it could not be renewed: %w", l.lostError(LeaseState{Free: true}), why)
	l.cancel(err)
	return err
}

// renew extends the lease.
func (l *Lease) renew(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended { // it was released; another write would take it again
		return l.lostError(LeaseState{Free: true})
	}
	ctx, cancel := context.WithTimeout(ctx, leaseAnswer)
	defer cancel()
	next := l.state
	next.Renewed = l.s.now()
	next.Expires = next.Renewed.Add(leaseTerm)
	return l.write(ctx, next)
}

// write replaces our lease. A conflict may be with our own write whose answer was
// lost; then the lease is still ours. The caller holds the mutex.
func (l *Lease) write(ctx context.Context, next LeaseState) error {
	v, err := l.s.writeLease(ctx, l.cluster, next, store.PutOptions{IfVersion: l.version})
	if fault.Is(err, fault.Conflict) {
		current, now, getErr := l.s.lease(ctx, l.cluster)
		if getErr != nil {
			return getErr
		}
		if now == "" || current.Free || current.ID != l.state.ID || current.Fence != l.state.Fence {
			return l.lostError(current)
		}
		v, err = l.s.writeLease(ctx, l.cluster, next, store.PutOptions{IfVersion: now})
	}
	if err != nil {
		return err
	}
	l.state, l.version = next, v
	return nil
}

// stopRenewals stops the renewals, and reports whether this call was the one that stopped them.
func (l *Lease) stopRenewals() bool {
	l.cancel(context.Canceled)
	<-l.renewed
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.ended
	l.ended = true
	return first
}

// Release releases the lease, even if ctx is done. It may be called more than once.
// The first lease of a cluster that does not exist is removed instead.
func (l *Lease) Release(ctx context.Context) error {
	if !l.stopRenewals() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseFarewell)
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first {
		_, _, err := l.s.folder(l.cluster).Get(ctx, layout.Config)
		if fault.Is(err, fault.Gone) {
			err = l.s.privateFolder(l.cluster).Delete(ctx, leaseKey, store.DeleteOptions{IfVersion: l.version})
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

// markRecorded notes that something was recorded under the lease, so that Release keeps it.
func (l *Lease) markRecorded() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first = false
}

// discard ends the lease together with its cluster: the lease and the given keys of the state
// store, the cluster's last objects, are removed, in one request if the store supports that.
func (l *Lease) discard(ctx context.Context, keys ...string) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx) // another process may hold the lease
	}
	if !l.stopRenewals() {
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
