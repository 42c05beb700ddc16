package pki

import (
	"maps"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/api"
)

// Names of keysets.
const (
	// KubernetesCA signs the certificates that the API server and the kubelets present to one
	// another.
	KubernetesCA = "kubernetes-ca"
	// AggregatorCA signs the certificate that the API server presents to extension servers.
	AggregatorCA = "apiserver-aggregator-ca"
	// ServiceAccount holds the keys that sign service account tokens.
	ServiceAccount = "service-account"
	// EtcdClientsCA signs certificates of clients of every etcd cluster except Cilium's.
	EtcdClientsCA = "etcd-clients-ca"
	// EtcdClientsCiliumCA signs certificates of clients of Cilium's own etcd cluster.
	EtcdClientsCiliumCA = "etcd-clients-ca-cilium"
	// DiscoveryCA signs node certificates for the discovery service.
	DiscoveryCA = "discovery-ca"
)

// EtcdManagerCA returns the name of the keyset that signs the certificates that the managers of an
// etcd cluster present to one another.
func EtcdManagerCA(etcd string) string { return "etcd-manager-ca-" + etcd }

// EtcdPeersCA returns the name of the keyset that signs the certificates that the peers of an etcd
// cluster present to one another.
func EtcdPeersCA(etcd string) string { return "etcd-peers-ca-" + etcd }

// KeysetNames lists the keysets that a cluster needs, sorted.
func KeysetNames(c *api.Cluster) []string {
	out := []string{KubernetesCA, AggregatorCA, ServiceAccount, EtcdClientsCA}
	for _, e := range c.Spec.EtcdClusters {
		out = append(out, EtcdManagerCA(e.Name), EtcdPeersCA(e.Name))
		if e.Name == "cilium" {
			out = append(out, EtcdClientsCiliumCA)
		}
	}
	if d := c.Spec.ServiceAccountIssuerDiscovery; d != nil && d.DiscoveryService != nil {
		out = append(out, DiscoveryCA)
	}
	slices.Sort(out)
	return out
}

// legacyNames returns the name under which old clusters store a keyset.
func legacyNames(name string) string {
	switch name {
	case KubernetesCA:
		return "ca"
	case ServiceAccount:
		return "master"
	}
	return ""
}

// Named returns the keyset with a name, which an old cluster may store under another one; nil if
// there is none.
func Named(existing map[string]*Keyset, name string) *Keyset {
	if k := existing[name]; k != nil {
		return k
	}
	old := existing[legacyNames(name)]
	if old == nil {
		return nil
	}
	return &Keyset{Name: name, Primary: old.Primary, Items: old.Items}
}

// Ensure returns existing with the missing keysets added, and the names of these: each is a new
// authority valid for ten years, or the keyset that an old cluster stores under another name. The
// keys are generated in parallel.
func Ensure(existing map[string]*Keyset, names []string, issuer Issuer) (all map[string]*Keyset, created []string, err error) {
	all = maps.Clone(existing)
	if all == nil {
		all = map[string]*Keyset{}
	}
	var missing []string
	for _, n := range names {
		if all[n] != nil {
			continue
		}
		created = append(created, n)
		if all[n] = Named(existing, n); all[n] == nil {
			missing = append(missing, n)
		}
	}
	made := make([]*Keyset, len(missing))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0)) // generating more keys at once takes as long, and delays all else, as answers to ^C
	for i, n := range missing {
		serial, err := issuer.TimedSerial() // here, because Rand need not be safe for concurrent use
		if err != nil {
			return nil, nil, err
		}
		g.Go(func() error {
			p, err := issuer.SelfSigned(Request{Usage: Authority, CommonName: n, Serial: serial})
			if err != nil {
				return err
			}
			made[i], err = NewKeyset(n, serial.String(), Item{ID: serial.String(), Certificate: p.Certificate, Key: p.Key})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	for i, n := range missing {
		all[n] = made[i]
	}
	return all, created, nil
}
