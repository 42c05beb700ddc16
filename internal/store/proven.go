package store

import (
	"context"
	"fmt"
	"sync"

	"kops.local/kops/internal/engine/fault"
)

// ProofKey is an object that a store of WithProof writes once and never removes, so that programs
// that test a server concurrently do not mislead each other.
const ProofKey = ".kops/conditions"

// noVersion looks like a version (an MD5), but no object has it.
const noVersion Version = "00000000000000000000000000000000"

// Proof remembers that a server enforces the conditions of writes. The zero value
// knows nothing yet. Stores in one bucket may share it.
type Proof struct {
	// Remedy is what to do about a server that ignores conditions.
	Remedy string

	mu   sync.Mutex
	done bool
}

// WithProof returns a store for a server that may ignore the conditions of writes and
// report success: it tests the server before the first conditional write, and refuses
// such writes if the server ignores them.
func WithProof(s Store, p *Proof) Store { return &provenStore{s, p} }

type provenStore struct {
	Store
	proof *Proof
}

// Put implements Store.
func (s *provenStore) Put(ctx context.Context, key string, data []byte, o PutOptions) (Version, error) {
	if o.IfAbsent || o.IfVersion != "" {
		if err := s.proof.verify(ctx, s.Store); err != nil {
			return "", err
		}
	}
	return s.Store.Put(ctx, key, data, o)
}

// verify tests a server, unless it has been tested already. The contents differ so that a
// rejected write is not mistaken for one whose answer was lost.
func (p *Proof) verify(ctx context.Context, s Store) error {
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
	if err := p.checkRejected(s, "If-None-Match", err); err != nil {
		return err
	}
	_, err = s.Put(ctx, ProofKey, []byte(first+"Written although its version was another.\n"), PutOptions{IfVersion: noVersion})
	if err := p.checkRejected(s, "If-Match", err); err != nil {
		return err
	}
	p.done = true
	return nil
}

// checkRejected returns an error unless a write failed with a conflict.
func (p *Proof) checkRejected(s Store, condition string, err error) error {
	switch {
	case err == nil:
		return fault.Wrap(fault.Permanent, fmt.Errorf("the server of %s ignores %s, so that two commands could overwrite each other's changes", s.About().URL, condition), p.Remedy)
	case fault.Is(err, fault.Conflict):
		return nil
	}
	return fmt.Errorf("test whether the server enforces conditional writes: %w", err)
}
