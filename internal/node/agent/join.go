package agent

import (
	"context"
	"crypto"
	"errors"

	"kops.local/kops/internal/node/bootstrap"
)

// Controller is a Joiner that speaks the join protocol.
type Controller struct{ Client *bootstrap.Client }

// Configuration requests the machine's node configuration.
func (c Controller) Configuration(ctx context.Context, hash string) ([]byte, map[string][]byte, error) {
	ask := c.Client.NodeConfig
	if hash != "" {
		ask = func(ctx context.Context) (bootstrap.NodeConfig, error) { return c.Client.NodeConfigOf(ctx, hash) }
	}
	n, err := ask(ctx)
	if errors.Is(err, bootstrap.ErrReady) {
		return nil, nil, ErrJoined
	}
	return []byte(n.NodeupConfig), n.NodeSecrets, err
}

// Certify sends public keys only.
func (c Controller) Certify(ctx context.Context, keys map[string]crypto.PublicKey, keypairIDs map[string]string) (map[string][]byte, error) {
	encoded := map[string]string{}
	for name, k := range keys {
		text, err := bootstrap.EncodePublicKey(k)
		if err != nil {
			return nil, err
		}
		encoded[name] = text
	}
	got, err := c.Client.Certificates(ctx, encoded, keypairIDs)
	if errors.Is(err, bootstrap.ErrReady) {
		return nil, ErrJoined
	}
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for name, text := range got {
		out[name] = []byte(text)
	}
	return out, nil
}
