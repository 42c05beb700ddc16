package pipeline

import (
	"context"
	"fmt"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/clusterstore"
)

// Access is how a user reaches a cluster.
type Access struct {
	Server, TLSServerName string
	CA, Certificate, Key  []byte // PEM; empty if not needed
}

// AccessOptions specify how a user reaches a cluster.
type AccessOptions struct {
	// Admin is the validity period of an admin certificate; if 0, no certificate is issued.
	Admin time.Duration
	// Internal uses the name of the API inside the cluster's network.
	Internal bool
	// Server is the URL of the API, instead of the inferred one.
	Server string
}

// Access returns how to reach the cluster whose authority is ca.
func (o *Opened) Access(ctx context.Context, ca *pki.Keyset, opts AccessOptions) (*Access, error) {
	return o.World.Access(ctx, o.Cluster, ca, opts, func(context.Context) (*Opened, error) { return o, nil })
}

// Access returns how to reach a cluster whose authority is ca. The cluster is only opened if its
// platform must be queried.
func (w *World) Access(ctx context.Context, cl *clusterstore.Contents, ca *pki.Keyset, o AccessOptions, open func(context.Context) (*Opened, error)) (_ *Access, err error) {
	a := &Access{TLSServerName: hostnames.API(cl.Spec.Name)}
	if a.Server, err = server(ctx, cl, o, open); err != nil {
		return nil, err
	}
	if lb := cl.Spec.Spec.API.LoadBalancer; lb == nil || lb.SSLCertificate == "" || o.Internal || o.Admin > 0 {
		a.CA = []byte(ca.Bundle())
	}
	if o.Admin > 0 {
		a.Certificate, a.Key, err = w.IssueAdmin(ctx, ca, o.Admin)
	}
	return a, err
}

// IssueAdmin issues a certificate with full rights, and its key, as PEM.
func (w *World) IssueAdmin(ctx context.Context, ca *pki.Keyset, life time.Duration) (certificate, key []byte, err error) {
	pair, err := w.Issuer(ctx).Admin(ca, w.User, life)
	if err != nil {
		return nil, nil, err
	}
	key, err = pair.Key.PEM()
	return pki.EncodeCertificate(pair.Certificate), key, err
}

// KubernetesCA returns the authority of a cluster, which must have been applied.
func KubernetesCA(ctx context.Context, cl *api.Cluster, f *clusterstore.Folders) (*pki.Keyset, error) {
	all, err := f.Keysets(ctx)
	if err != nil {
		return nil, err
	}
	ca := pki.Named(all, pki.KubernetesCA)
	if ca == nil {
		return nil, fault.New(fault.Gone, "cluster %s has no certificate authority yet; run `kops update cluster %s --yes` first", cl.Name, cl.Name)
	}
	return ca, nil
}

// server returns the URL of the API, or "" while its load balancer has no address.
func server(ctx context.Context, cl *clusterstore.Contents, o AccessOptions, open func(context.Context) (*Opened, error)) (string, error) {
	spec := &cl.Spec.Spec
	port := ""
	if o.Admin > 0 && spec.API.LoadBalancer != nil && spec.API.LoadBalancer.SSLCertificate != "" {
		port = ":8443" // the listener that passes client certificates through
	}
	switch {
	case o.Server != "":
		return o.Server, nil
	case o.Internal:
		return "https://" + hostnames.API(cl.Spec.Name), nil
	case spec.API.LoadBalancer != nil && (spec.API.LoadBalancer.SSLCertificate == "" || o.Admin > 0) || spec.DNSType() == api.DNSNone:
		opened, err := open(ctx)
		if err != nil {
			return "", err
		}
		host, err := opened.endpoint(ctx)
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

// endpoint queries the platform for the address of the API's load balancer.
func (o *Opened) endpoint(ctx context.Context) (string, error) {
	if o.Provider.Lookup.Endpoint == nil {
		return "", nil
	}
	host, err := o.Provider.Lookup.Endpoint(ctx, o.Session, o.Cluster.Spec)
	if err != nil {
		return "", fmt.Errorf("find the address of the API of %s (not needed with option:Internal or option:Server): %w", o.Cluster.Spec.Name, err)
	}
	return host, nil
}
