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
	// Machine tells which instance this is.
	Machine func(context.Context) (gcerest.Machine, error)
	// Open connects to the TPM; it is closed after each proof, as others use it too.
	Open func() (transport.TPMCloser, error)
	Now  func() time.Time

	turn sync.Mutex // a TPM serves one at a time
}

var _ bootstrap.Prover = (*Prover)(nil)

// Prove signs which instance asks, for what and when.
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
	p.turn.Lock()
	defer p.turn.Unlock()
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
