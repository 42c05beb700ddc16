package run

import (
	"crypto/tls"
	"errors"
	"sync"
	"time"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/controller"
)

// callerAge is how long a certificate for calls is used; it is valid for an hour.
const callerAge = 30 * time.Minute

// callers returns a function that returns a certificate with which machines are called. It creates
// another when the certificate is old, or another key of the cluster's authority signs.
func callers(cluster string, server func() *controller.Server) func() (*tls.Certificate, error) {
	var mu sync.Mutex
	var own tls.Certificate
	var signer string
	var created time.Time
	return func() (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		s := server()
		ca := s.Signers[pki.KubernetesCA]
		if ca == nil {
			return nil, errors.New("the configuration of kops-controller: server.signingCAs lacks " + pki.KubernetesCA)
		}
		if now := s.Issuer.Now(); own.Leaf == nil || signer != ca.Primary || now.Sub(created).Abs() > callerAge {
			next, err := bootstrap.CallerCertificate(cluster, ca, s.Issuer)
			if err != nil {
				return nil, err
			}
			own, signer, created = next, ca.Primary, now
		}
		out := own
		return &out, nil
	}
}
