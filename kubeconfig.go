package kops

import (
	"context"
	"fmt"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/spec/complete"
)

// KubeconfigOptions say how a user reaches a cluster.
type KubeconfigOptions struct {
	// Admin is the life of an admin certificate; 0: none is made.
	Admin time.Duration
	// User is an existing user of the kubeconfig file.
	User string
	// AuthPlugin gets credentials by running kops.
	AuthPlugin bool
	// Internal uses the name of the API inside the cluster's network.
	Internal bool
	// Server is the URL of the API, instead of the inferred one.
	Server string
}

// HasCredentials reports whether the options give the cluster's context a user.
func (o KubeconfigOptions) HasCredentials() bool { return o.Admin > 0 || o.User != "" || o.AuthPlugin }

// Access is how a user reaches a cluster.
type Access struct {
	Server, TLSServerName string
	CA, Certificate, Key  []byte // PEM; empty when not needed
}

// Kubeconfig returns how a cluster is reached, with an admin certificate when one is asked for.
func (c *Client) Kubeconfig(ctx context.Context, cluster string, o KubeconfigOptions) (*Access, error) {
	cl, err := c.Cluster(ctx, cluster)
	if err != nil {
		return nil, err
	}
	f, err := c.store.Folders(ctx, cl.Spec, cl.Contents)
	if err != nil {
		return nil, err
	}
	ca, err := c.kubernetesCA(ctx, cl.Spec, f)
	if err != nil {
		return nil, err
	}
	return c.access(ctx, &prepared{cluster: cl, client: c}, ca, o)
}

// KubeconfigOf returns how a cluster is reached that was just updated, without
// reading it again.
func (c *Client) KubeconfigOf(ctx context.Context, u *Update, o KubeconfigOptions) (*Access, error) {
	return c.access(ctx, u.prepared, u.prepared.keysets[pki.KubernetesCA], o)
}

func (c *Client) access(ctx context.Context, p *prepared, ca *pki.Keyset, o KubeconfigOptions) (_ *Access, err error) {
	cl := p.cluster
	a := &Access{TLSServerName: hostnames.API(cl.Spec.Name)}
	if a.Server, err = c.server(ctx, p, o); err != nil {
		return nil, err
	}
	if lb := cl.Spec.Spec.API.LoadBalancer; lb == nil || lb.SSLCertificate == "" || o.Internal || o.Admin > 0 {
		a.CA = []byte(ca.Bundle())
	}
	if o.Admin > 0 {
		a.Certificate, a.Key, err = c.issueAdmin(ca, o.Admin)
	}
	return a, err
}

// AdminCertificate issues a certificate with full rights on a cluster, which
// lives as long as is said, and its key; both are PEM. No platform is asked.
func (c *Client) AdminCertificate(ctx context.Context, cluster string, life time.Duration) (certificate, key []byte, err error) {
	cl, err := c.Cluster(ctx, cluster)
	if err != nil {
		return nil, nil, err
	}
	f, err := c.store.Folders(ctx, cl.Spec, cl.Contents)
	if err != nil {
		return nil, nil, err
	}
	ca, err := c.kubernetesCA(ctx, cl.Spec, f)
	if err != nil {
		return nil, nil, err
	}
	return c.issueAdmin(ca, life)
}

func (c *Client) issueAdmin(ca *pki.Keyset, life time.Duration) (certificate, key []byte, err error) {
	pair, err := c.issuer().Admin(ca, c.cfg.Holder.User, life)
	if err != nil {
		return nil, nil, err
	}
	key, err = pair.Key.PEM()
	return pki.EncodeCertificate(pair.Certificate), key, err
}

// server is the URL of the API, or "" while its load balancer has no address.
func (c *Client) server(ctx context.Context, p *prepared, o KubeconfigOptions) (string, error) {
	cl, spec := p.cluster, &p.cluster.Spec.Spec
	port := ""
	if o.Admin > 0 && spec.API.LoadBalancer != nil && spec.API.LoadBalancer.SSLCertificate != "" {
		port = ":8443" // the listener that passes client certificates on
	}
	switch {
	case o.Server != "":
		return o.Server, nil
	case o.Internal:
		return "https://" + hostnames.API(cl.Spec.Name), nil
	case spec.API.LoadBalancer != nil && (spec.API.LoadBalancer.SSLCertificate == "" || o.Admin > 0) || complete.DNS(spec) == api.DNSNone:
		host, err := c.endpoint(ctx, p)
		if err != nil || host == "" {
			return "", err
		}
		return "https://" + host + port, nil
	}
	name := spec.API.PublicName
	if name == "" {
		name = "api." + cl.Spec.Name
	}
	return "https://" + name + port, nil
}

// endpoint asks the platform for the address of the API's load balancer.
func (c *Client) endpoint(ctx context.Context, p *prepared) (string, error) {
	if p.session == nil {
		if err := c.connect(ctx, p, UpdateOptions{}); err != nil {
			return "", err
		}
	}
	if p.provider.Endpoint == nil {
		return "", nil
	}
	host, err := p.provider.Endpoint(ctx, p.session, p.cluster.Spec)
	if err != nil {
		return "", fmt.Errorf("find the address of the API of %s (--internal and --api-server need none): %w", p.cluster.Spec.Name, err)
	}
	return host, nil
}
