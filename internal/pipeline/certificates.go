package pipeline

import (
	"context"
	"crypto/x509"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/ops/certificates"
	"kops.local/kops/internal/ops/kubeclient"
)

// Certificates lists the cluster's certificates: the authorities in the store, what nodes report
// about their machines, and the API server's certificate. If there is an error, the result has what
// could be read.
func (k *Checkup) Certificates(ctx context.Context) (*certificates.Stock, error) {
	keysets, err := k.Places.Keysets(ctx)
	if err != nil {
		return certificates.New(nil), err
	}
	s := certificates.New(keysets)
	config, err := k.restConfig(ctx)
	if err != nil {
		return s, err
	}
	served, err := certificates.ServerCertificate(ctx, config.Host, config.ServerName)
	if err != nil {
		return s, err
	}
	s.Add(certificates.APIServer, "", served)
	nodes, err := k.nodes(ctx)
	if err == nil {
		s.Nodes(nodes)
	}
	return s, err
}

// Rewriting returns a client that writes objects without reading their contents, limited to a
// number of requests per second.
func (k *Checkup) Rewriting(ctx context.Context, perSecond float32) (*kubeclient.Client, error) {
	config, err := k.restConfig(ctx)
	if err != nil {
		return nil, err
	}
	c := rest.CopyConfig(config)
	c.QPS, c.Burst = perSecond, int(perSecond)
	return kubeclient.New(c)
}

// UserCertificate returns the certificate of a cluster's context in a kubeconfig file; nil if
// there is none.
func UserCertificate(file, cluster string) *x509.Certificate {
	config, err := clientcmd.LoadFromFile(file)
	if err != nil || config.Contexts[cluster] == nil {
		return nil
	}
	user := config.AuthInfos[config.Contexts[cluster].AuthInfo]
	if user == nil {
		return nil
	}
	text := user.ClientCertificateData
	if len(text) == 0 && user.ClientCertificate != "" {
		if text, err = os.ReadFile(user.ClientCertificate); err != nil {
			return nil
		}
	}
	c, err := pki.ParseCertificate(text)
	if err != nil {
		return nil
	}
	return c
}
