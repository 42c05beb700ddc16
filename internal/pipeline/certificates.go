package pipeline

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/ops/certificates"
)

// Certificates takes stock of the cluster's certificates: the authorities of the store, what
// nodes tell of their machines, and what the API server shows. The stock is what could be had
// where there is an error, too.
func (k *Checkup) Certificates(ctx context.Context) (*certificates.Stock, []corev1.Node, error) {
	keysets, err := k.Places.Keysets(ctx)
	if err != nil {
		return certificates.New(nil), nil, err
	}
	s := certificates.New(keysets)
	client, err := k.Kubernetes(ctx)
	if err != nil {
		return s, nil, err
	}
	served, err := certificates.Served(ctx, k.config.Host, k.config.ServerName)
	if err != nil {
		return s, nil, err
	}
	s.Add(certificates.APIServer, "", served)
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, nil, fmt.Errorf("list the nodes: %w", err)
	}
	s.Nodes(nodes.Items)
	return s, nodes.Items, nil
}

// Rewriting is a client that writes objects without reading what they hold, of so many requests a second.
func (k *Checkup) Rewriting(ctx context.Context, perSecond float32) (metadata.Interface, error) {
	if _, err := k.Kubernetes(ctx); err != nil {
		return nil, err
	}
	c := rest.CopyConfig(k.config)
	c.QPS, c.Burst, c.UserAgent, c.WarningHandler = perSecond, int(perSecond), "kops", rest.NoWarnings{}
	client, err := metadata.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("use the address %s of the API: %w", c.Host, err)
	}
	return client, nil
}

// UserCertificate is that of the context of a cluster in a kubeconfig file; nil where there is none.
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
