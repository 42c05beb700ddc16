package controller

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"kops.local/kops/internal/contract/controllerconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/node/bootstrap"
)

// certificate specifies the contents and the signer of a certificate.
type certificate struct {
	signer  string
	request func(id bootstrap.Identity) pki.Request
}

// certificates returns the certificates that a machine can get, by name. All are
// for the verified identity: the machine chooses nothing in them but the key.
func certificates() map[string]certificate {
	client := func(signer, commonName string) certificate {
		return certificate{signer, func(bootstrap.Identity) pki.Request {
			return pki.Request{Usage: pki.Client, CommonName: commonName}
		}}
	}
	return map[string]certificate{
		controllerconfig.CertKubelet: {pki.KubernetesCA, func(id bootstrap.Identity) pki.Request {
			return pki.Request{Usage: pki.Client, CommonName: nodeUser + id.NodeName, Organization: []string{nodeGroup}}
		}},
		controllerconfig.CertKubeletServer: {pki.KubernetesCA, func(id bootstrap.Identity) pki.Request {
			return pki.Request{Usage: pki.Server, CommonName: id.NodeName, Names: id.Names}
		}},
		controllerconfig.CertKubeProxy:        client(pki.KubernetesCA, "system:kube-proxy"),
		controllerconfig.CertKubeRouter:       client(pki.KubernetesCA, "system:kube-router"),
		controllerconfig.CertEtcdClientCilium: client(pki.EtcdClientsCiliumCA, "cilium"),
	}
}

// issue certifies the keys of a machine's request. It issues all certificates or none.
func (s *Server) issue(id bootstrap.Identity, r bootstrap.Request) (map[string]string, error) {
	out := map[string]string{}
	for name, text := range r.Certs {
		known, ok := certificates()[name]
		if !ok || !slices.Contains(s.Allowed, name) {
			return nil, fmt.Errorf("certificates with the name %q are not issued to machines", name)
		}
		signer := s.Signers[known.signer]
		if signer == nil {
			return nil, fmt.Errorf("the certificate %s is signed by %s, whose key is not available here", name, known.signer)
		}
		if expected := r.KeypairIDs[known.signer]; expected != signer.Primary {
			return nil, fmt.Errorf("the machine expects the key %q of %s to sign, but the current key is %q: its configuration is out of date; update the cluster, and replace the machine",
				expected, known.signer, signer.Primary)
		}
		key, err := bootstrap.DecodePublicKey(text)
		if err != nil {
			return nil, fmt.Errorf("the certificate %s: %w", name, err)
		}
		request := known.request(id)
		request.PublicKey, request.Validity = key, validity(id.NodeName)
		pair, err := s.Issuer.Issue(request, signer)
		if err != nil {
			return nil, err
		}
		out[name] = string(pki.EncodeCertificate(pair.Certificate))
	}
	return out, nil
}

// The kubelets' identity at the API server (Kubernetes, "Using Node Authorization").
const (
	nodeUser  = "system:node:"
	nodeGroup = "system:nodes"
)

const (
	// leastValidity is the minimum validity of a node's certificates, and spread the most
	// that is added to it. A certificate cannot be revoked before it expires, and its
	// machine may be gone: that is why it expires soon. Machines renew in the last third of
	// the validity, checking twice a day.
	leastValidity, spread = 24 * 24 * time.Hour, 6 * 24 * time.Hour
)

// validity returns the validity of a node's certificates. It is derived from the node's name,
// so that a cluster's certificates do not all expire together.
func validity(node string) time.Duration {
	h := fnv.New32()
	_, _ = h.Write([]byte(node)) // writing to a hash never fails
	return leastValidity + time.Duration(h.Sum32()%uint32(spread/time.Hour))*time.Hour
}
