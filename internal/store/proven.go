package store

import (
	"context"
	"fmt"
	"sync"

	"kops.local/kops/internal/engine/fault"
)

// ProofKey is an object that Proven writes once and never removes, so that programs
// that try a server at the same time do not mislead each other.
const ProofKey = ".kops/conditions"

// noVersion has the form of a version (an MD5) and is the version of no object.
const noVersion Version = "00000000000000000000000000000000"

// Proof remembers that a server keeps the conditions of writes. Its zero value knows
// nothing yet. Stores in one bucket may share it.
type Proof struct {
	// Remedy is what to do about a server that ignores them.
	Remedy string

	mu   sync.Mutex
	done bool
}

// Proven returns a store for a server that may ignore the conditions of writes and
// report success: it tries the server before the first conditional write, and refuses
// such writes when the server ignores them.
func Proven(s Store, p *Proof) Store { return &proven{s, p} }

type proven struct {
	Store
	proof *Proof
}

// Put implements Store.
func (s *proven) Put(ctx context.Context, key string, data []byte, o PutOptions) (Version, error) {
	if o.IfAbsent || o.IfVersion != "" {
		if err := s.proof.of(ctx, s.Store); err != nil {
			return "", err
		}
	}
	return s.Store.Put(ctx, key, data, o)
}

// of tries a server, unless it has been tried already. The contents differ so that a
// write that was refused is not mistaken for one of which the answer was lost.
func (p *Proof) of(ctx context.Context, s Store) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return nil
	}
	const first = "kops writes this object to test whether the server enforces conditional writes.\n"
	_, err := s.Put(ctx, ProofKey, []byte(first), PutOptions{IfAbsent: true})
	if err == nil { // it was absent, or the server ignores the condition
		_, err = s.Put(ctx, ProofKey, []byte(first+"Written although it existed.\n"), PutOptions{IfAbsent: true})
	}
	if err := p.refused(s, "If-None-Match", err); err != nil {
		return err
	}
	_, err = s.Put(ctx, ProofKey, []byte(first+"Written although its version was another.\n"), PutOptions{IfVersion: noVersion})
	if err := p.refused(s, "If-Match", err); err != nil {
		return err
	}
	p.done = true
	return nil
}

// refused returns an error unless a write ended with a conflict.
func (p *Proof) refused(s Store, condition string, err error) error {
	switch {
	case err == nil:
		return fault.Wrap(fault.Permanent, fmt.Errorf("the server of %s ignores %s, so that two commands could overwrite each other's changes", s.About().URL, condition), p.Remedy)
	case fault.Is(err, fault.Conflict):
		return nil
	}
	return fmt.Errorf("test whether the server enforces conditional writes: %w", err)
}
