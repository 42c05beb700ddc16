package node

import (
	"maps"
	"strings"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/staticpod"
)

// trustAnnotation restarts a pod when the authorities and keys that it trusts change: it reads
// other programs' authorities and signing keys only at startup, and a machine may get new ones
// while it runs.
const trustAnnotation = "kops.k8s.io/trust"

// trustDigest returns a digest of some keysets' certificates, the choice of their signing
// keys, and further texts that a program reads only at startup.
func (b *builder) trustDigest(keysets []string, more ...string) string {
	var texts []string
	for _, k := range keysets {
		bundle, _ := b.bundle(k) // a missing keyset is reported where its file is written
		texts = append(texts, bundle, b.Config.KeypairIDs[k])
	}
	return labels.Digest([]byte(strings.Join(append(texts, more...), "\x00")))
}

// annotateTrust annotates a pod with a digest of the keysets that it trusts.
func (b *builder) annotateTrust(p *staticpod.Pod, keysets []string, more ...string) {
	all := maps.Clone(p.Metadata.Annotations)
	if all == nil {
		all = map[string]string{}
	}
	all[trustAnnotation] = b.trustDigest(keysets, more...)
	p.Metadata.Annotations = all
}

// manifestWithTrust annotates a pod's manifest with a digest of the keysets that it trusts.
func (b *builder) manifestWithTrust(name, manifest string, keysets ...string) (string, error) {
	text, _, err := annotatePod(name, manifest, trustAnnotation, b.trustDigest(keysets))
	return text, err
}

// etcdKeysets returns the authorities of an etcd cluster with the names of their files.
func etcdKeysets(etcd string) [][2]string {
	clients := pki.EtcdClientsCA
	if etcd == "cilium" {
		clients = pki.EtcdClientsCiliumCA
	}
	return [][2]string{{pki.EtcdManagerCA(etcd), "etcd-manager-ca"}, {pki.EtcdPeersCA(etcd), "etcd-peers-ca"}, {clients, "etcd-clients-ca"}}
}

// etcdTrusts returns the keysets that an etcd member reads; member is named CLUSTER-GROUP.
func (b *builder) etcdTrusts(member string) []string {
	var out []string
	for _, e := range b.Config.EtcdClusterNames {
		if member != e && !strings.HasPrefix(member, e+"-") {
			continue
		}
		for _, k := range etcdKeysets(e) {
			out = append(out, k[0])
		}
	}
	return out
}
