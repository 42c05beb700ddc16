package vtpm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/go-tpm/tpm2/transport"

	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/gce/gcerest"
)

// Prover signs with the attestation key of this machine's TPM.
type Prover struct {
	// Machine identifies this instance.
	Machine func(context.Context) (gcerest.Machine, error)
	// Open connects to the TPM; it is closed after each proof, because other programs use it, too.
	Open func() (transport.TPMCloser, error)
	Now  func() time.Time

	mu sync.Mutex // a TPM serves one client at a time
}

var _ bootstrap.Prover = (*Prover)(nil)

// Prove signs a claim that contains the instance, the hash of body and the time.
func (p *Prover) Prove(ctx context.Context, body []byte) (string, error) {
	text, err := p.prove(ctx, body)
	if err != nil {
		return "", fmt.Errorf("prove the identity of this machine: %w", err)
	}
	return text, nil
}

func (p *Prover) prove(ctx context.Context, body []byte) (_ string, err error) {
	m, err := p.Machine(ctx)
	if err != nil {
		return "", err
	}
	data, err := newClaim(m, body, p.Now())
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t, err := p.Open()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	signature, err := sign(t, data)
	if err != nil {
		return "", err
	}
	return token{signature, data}.encode()
}
