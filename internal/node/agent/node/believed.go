package node

import (
	"maps"
	"strings"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/staticpod"
)

// trustAnnotation restarts a pod when the authorities and keys that it trusts change: it reads
// other programs' authorities, and signing keys, only at its start, and a machine may get new ones
// while it runs.
const trustAnnotation = "kops.k8s.io/trust"

// believed is a digest of the certificates of some keysets, which of their keys sign, and
// more texts that a program reads at its start alone.
func (b *builder) believed(keysets []string, more ...string) string {
	var texts []string
	for _, k := range keysets {
		bundle, _ := b.bundle(k) // one that is missing is an error where its file is written
		texts = append(texts, bundle, b.Config.KeypairIDs[k])
	}
	return labels.Digest([]byte(strings.Join(append(texts, more...), "\x00")))
}

// readsTrust annotates a pod with a digest of the keys that it trusts.
func (b *builder) readsTrust(p *staticpod.Pod, keysets []string, more ...string) {
	all := maps.Clone(p.Metadata.Annotations)
	if all == nil {
		all = map[string]string{}
	}
	all[trustAnnotation] = b.believed(keysets, more...)
	p.Metadata.Annotations = all
}

// withTrust annotates the text of a pod with a digest of the keys that it trusts.
func (b *builder) withTrust(name, manifest string, keysets ...string) (string, error) {
	text, _, err := annotated(name, manifest, trustAnnotation, b.believed(keysets))
	return text, err
}

// etcdKeysets are the authorities of an etcd cluster, by the names of their files.
func etcdKeysets(etcd string) [][2]string {
	clients := pki.EtcdClientsCA
	if etcd == "cilium" {
		clients = pki.EtcdClientsCiliumCA
	}
	return [][2]string{{pki.EtcdManagerCA(etcd), "etcd-manager-ca"}, {pki.EtcdPeersCA(etcd), "etcd-peers-ca"}, {clients, "etcd-clients-ca"}}
}

// etcdTrusts are the keysets that a member of etcd reads, which is called CLUSTER-GROUP.
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
