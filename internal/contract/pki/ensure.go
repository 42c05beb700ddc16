package pki

import (
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/api"
)

// Names of keysets.
const (
	// KubernetesCA signs what the API server and the kubelets show one another.
	KubernetesCA = "kubernetes-ca"
	// AggregatorCA signs the certificate with which the API server speaks to extension servers.
	AggregatorCA = "apiserver-aggregator-ca"
	// ServiceAccount holds the keys that sign service account tokens.
	ServiceAccount = "service-account"
	// EtcdClientsCA signs clients of every etcd cluster but Cilium's.
	EtcdClientsCA = "etcd-clients-ca"
	// EtcdClientsCiliumCA signs clients of Cilium's own etcd cluster.
	EtcdClientsCiliumCA = "etcd-clients-ca-cilium"
	// DiscoveryCA signs node certificates for the discovery service.
	DiscoveryCA = "discovery-ca"
)

// EtcdManagerCA names the keyset that signs what the managers of an etcd cluster show one another.
func EtcdManagerCA(etcd string) string { return "etcd-manager-ca-" + etcd }

// EtcdPeersCA names the keyset that signs what the peers of an etcd cluster show one another.
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

// legacyNames gives the name under which old clusters hold a keyset.
func legacyNames(name string) string {
	switch name {
	case KubernetesCA:
		return "ca"
	case ServiceAccount:
		return "master"
	}
	return ""
}

// Named returns the keyset of a name, which an old cluster may hold under another
// one; nil when there is none.
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

// Ensure returns existing with the keysets of names added that it lacks, and
// the names of those: each is a new authority of ten years, or the keyset that
// an old cluster holds under another name. The keys are made in parallel.
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
	for i, n := range missing {
		serial, err := issuer.TimedSerial() // here, as Rand need not be safe for concurrent use
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
