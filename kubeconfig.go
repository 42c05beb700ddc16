package kops

import (
	"context"
	"time"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/pipeline"
)

// KubeconfigOptions configure how a user reaches a cluster.
type KubeconfigOptions struct {
	// Admin is the lifetime of an admin certificate; 0 means no certificate.
	Admin time.Duration
	// User is an existing user of the kubeconfig file.
	User string
	// AuthPlugin obtains credentials by running kops.
	AuthPlugin bool
	// Internal uses the DNS name of the API inside the cluster's network.
	Internal bool
	// Server is the URL of the API, instead of the inferred one.
	Server string
}

// HasCredentials reports whether the options give the cluster's context a user.
func (o KubeconfigOptions) HasCredentials() bool { return o.Admin > 0 || o.User != "" || o.AuthPlugin }

func (o KubeconfigOptions) access() pipeline.AccessOptions {
	return pipeline.AccessOptions{Admin: o.Admin, Internal: o.Internal, Server: o.Server}
}

// Access is the address of a cluster and the credentials of a user.
type Access struct {
	Server, TLSServerName string
	CA, Certificate, Key  []byte // PEM; empty when not needed
}

// Kubeconfig returns how to reach a cluster, with an admin certificate if one is requested.
func (c *Client) Kubeconfig(ctx context.Context, cluster string, o KubeconfigOptions) (*Access, error) {
	cl, err := c.Clusters().Get(ctx, cluster)
	if err != nil {
		return nil, err
	}
	f, err := c.store.Folders(ctx, cl.Spec, cl.stored())
	if err != nil {
		return nil, err
	}
	ca, err := pipeline.KubernetesCA(ctx, cl.Spec, f)
	if err != nil {
		return nil, err
	}
	a, err := c.world.Access(ctx, cl.stored(), ca, o.access(), func(ctx context.Context) (*pipeline.Opened, error) {
		return c.world.Open(ctx, cl.stored(), pipeline.OpenOptions{})
	})
	return (*Access)(a), err
}

// KubeconfigOf returns the address and credentials of a cluster that was just updated, without
// reading it again. It is an error for a deletion.
func (c *Client) KubeconfigOf(ctx context.Context, u *Update, o KubeconfigOptions) (*Access, error) {
	if u.model == nil {
		return nil, errNoUpdate
	}
	a, err := u.model.Access(ctx, u.model.Keysets[pki.KubernetesCA], o.access())
	return (*Access)(a), err
}

// AdminCertificate issues a certificate with full permissions on a cluster and the given
// lifetime, and its key; both are PEM. It does not access the platform.
func (c *Client) AdminCertificate(ctx context.Context, cluster string, life time.Duration) (certificate, key []byte, err error) {
	cl, err := c.Clusters().Get(ctx, cluster)
	if err != nil {
		return nil, nil, err
	}
	f, err := c.store.Folders(ctx, cl.Spec, cl.stored())
	if err != nil {
		return nil, nil, err
	}
	ca, err := pipeline.KubernetesCA(ctx, cl.Spec, f)
	if err != nil {
		return nil, nil, err
	}
	return c.world.IssueAdmin(ctx, ca, life)
}
