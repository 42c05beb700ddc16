package node

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/contract/controllerconfig"
	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/users"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
)

// certificatePair adds a certificate and its key as the files <at>.crt and <at>.key.
func (b *builder) certificatePair(at string, c host.Certificate) error {
	c.Path, c.KeyPath = at+".crt", at+".key"
	if c.Mode == "" {
		c.Mode = "0600"
	}
	if c.KeyMode == "" {
		c.KeyMode = "0600"
	}
	return b.certificate(c)
}

func (b *builder) certificate(c host.Certificate) error {
	if c.Signer == "" {
		c.Signer = pki.KubernetesCA
	}
	if c.Name == "" {
		c.Name = c.CommonName
	}
	c.Validity, c.Valid, c.Group = b.validity(), true, c.Owner
	_, err := add(b, &host.Certificates, c.Path, c)
	return err
}

// kubeconfig adds a file with which a component calls the API.
func (b *builder) kubeconfig(path, name, user string, c host.Certificate) error {
	ca, err := b.bundle(pki.KubernetesCA)
	if err != nil {
		return err
	}
	c.Path, c.Name, c.User, c.Usage = path, name, user, string(pki.Client)
	c.CA, c.Server = resource.Text(resource.Lit(ca)), b.server()
	if c.CommonName == "" {
		c.CommonName = "system:" + name
	}
	if c.Mode == "" {
		c.Mode = "0400"
	}
	return b.certificate(c)
}

// certificateMark stands for a certificate's serial number in a text under construction.
const certificateMark = "@certificate@"

// withCertificate replaces the mark in a text with a certificate's serial number.
func withCertificate(text, path string) resource.Value {
	before, after, _ := strings.Cut(text, certificateMark)
	serial := resource.Out(resource.Address{Kind: host.Certificates.Name, Name: path}, "serial")
	return resource.Concat(resource.Lit(before), serial, resource.Lit(after))
}

// podRestartedWithCertificate adds a static pod that is restarted when the certificate of its
// kubeconfig is reissued: components read it only at startup, and a machine may run for longer than
// the certificate is valid.
func (b *builder) podRestartedWithCertificate(name, manifest, kubeconfig string) error {
	text, there, err := annotatePod(name, manifest, "kops.k8s.io/certificate", certificateMark)
	if err == nil && !there {
		err = fmt.Errorf("the manifest of %s is empty", name)
	}
	if err != nil {
		return err
	}
	return b.staticPod(name, withCertificate(text, kubeconfig))
}

// annotatePod returns a pod's manifest with an annotation. A manifest that contains no pod
// is returned unchanged: a kubelet runs nothing from it.
func annotatePod(name, manifest, annotation, value string) (text string, there bool, err error) {
	var p map[string]any
	if err := yaml.Unmarshal([]byte(manifest), &p); err != nil {
		return "", false, fmt.Errorf("the manifest of %s: %w", name, err)
	}
	if p == nil {
		return manifest, false, nil
	}
	subtable(subtable(p, "metadata"), "annotations")[annotation] = value
	out, err := yaml.Marshal(p)
	if err != nil {
		return "", false, fmt.Errorf("write the pod %s: %w", name, err)
	}
	return string(out), true, nil
}

// subtable returns the table at a key of another, and creates it if it is missing.
func subtable(m map[string]any, key string) map[string]any {
	inner, ok := m[key].(map[string]any)
	if !ok {
		inner = map[string]any{}
		m[key] = inner
	}
	return inner
}

// caFiles adds the bundle of a keyset and, with withKey, its signing key, owned by one user.
func (b *builder) caFiles(keyset, at string, user int, withKey bool) error {
	bundle, err := b.bundle(keyset)
	if err != nil {
		return err
	}
	if err := b.ownerOnlyFile(at+".crt", bundle, user); err != nil || !withKey {
		return err
	}
	key, err := b.key(keyset)
	if err != nil {
		return err
	}
	return b.secret(at+".key", key, user)
}

// signingFiles adds the signing key of a keyset and its one certificate: the controller manager
// does not start if the file contains a second certificate.
func (b *builder) signingFiles(keyset, at string) error {
	key, err := b.key(keyset)
	if err != nil {
		return err
	}
	if err := b.ownerOnlyFile(at+".crt", string(pki.EncodeCertificate(b.Keysets[keyset].Signer().Certificate)), 0); err != nil {
		return err
	}
	return b.secret(at+".key", key, 0)
}

// trust adds the certificates that every machine serves, and those that it trusts.
func (b *builder) trust() error {
	if err := b.caFiles(pki.KubernetesCA, b.places.keys+"/ca", 0, false); err != nil {
		return err
	}
	names := b.Host.Names
	if !b.hasAPIServer() {
		names = nil // the signer determines the machine's names when it verifies the machine
	}
	if err := b.certificatePair(b.places.keys+"/kubelet-server", host.Certificate{Name: controllerconfig.CertKubeletServer, CommonName: b.Host.NodeName, Usage: string(pki.Server), Names: names, KeyMode: "0400"}); err != nil {
		return err
	}
	if err := b.kubeconfig(KubeletKubeconfig, "kubelet", "kubelet",
		host.Certificate{CommonName: "system:node:" + b.Host.NodeName, Organization: []string{"system:nodes"}}); err != nil {
		return err
	}
	if b.Config.UseCiliumEtcd {
		if err := b.certificatePair("/etc/kubernetes/pki/cilium/etcd-client-cilium", host.Certificate{Name: controllerconfig.CertEtcdClientCilium, CommonName: "cilium", Usage: string(pki.Client), Signer: pki.EtcdClientsCiliumCA}); err != nil {
			return err
		}
		if err := b.caFiles(pki.EtcdClientsCiliumCA, "/etc/kubernetes/pki/cilium/etcd-ca", 0, false); err != nil {
			return err
		}
	}
	if b.Config.Networking.KubeRouter != nil {
		return b.kubeconfig(routerKubeconfig, "kube-router", "kube-router", host.Certificate{})
	}
	return nil
}

// apiServerNames returns the names under which this machine's API server may be reached.
func (b *builder) apiServerNames() []string {
	a := b.Config.APIServerConfig
	out := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + a.ClusterDNSDomain, a.API.PublicName, b.internal("api"), "127.0.0.1"}
	out = slices.Concat(out, a.API.AdditionalSANs, b.Config.APIServerAdditionalIPs, b.Boot.APIServerIPs)
	ranges := b.Config.Networking.ServiceClusterIPRange
	if s := a.KubeAPIServer; s != nil && s.ServiceClusterIPRange != "" {
		ranges = s.ServiceClusterIPRange
	}
	for r := range strings.SplitSeq(ranges, ",") {
		if p, err := netip.ParsePrefix(strings.TrimSpace(r)); err == nil {
			out = append(out, p.Masked().Addr().Next().String())
		}
	}
	return unique(out)
}

// apiServerTrust adds the certificates that the API server serves, and those that it trusts.
func (b *builder) apiServerTrust() error {
	dir := b.places.keys + "/kube-apiserver"
	if err := b.directory(dir, "0755", 0); err != nil {
		return err
	}
	ca, err := b.bundle(pki.KubernetesCA)
	if err != nil {
		return err
	}
	client := string(pki.Client)
	for _, c := range []struct {
		at string
		host.Certificate
	}{
		{dir + "/server", host.Certificate{CommonName: "kubernetes-master", Usage: string(pki.Server), Names: b.apiServerNames(), CA: resource.Text(resource.Lit(ca))}},
		{dir + "/etcd-client", host.Certificate{CommonName: "kube-apiserver", Usage: client, Signer: pki.EtcdClientsCA}},
		{dir + "/apiserver-aggregator", host.Certificate{CommonName: "aggregator", Usage: client, Signer: pki.AggregatorCA}},
		{dir + "/kubelet-api", host.Certificate{CommonName: "kubelet-api", Usage: client}},
		{healthcheckSecrets + "/client", host.Certificate{CommonName: "kube-apiserver-healthcheck", Usage: client, Owner: users.Healthcheck}},
	} {
		if err := b.certificatePair(c.at, c.Certificate); err != nil {
			return err
		}
	}
	for keyset, at := range map[string]string{pki.EtcdClientsCA: "/etcd-ca", pki.AggregatorCA: "/apiserver-aggregator-ca"} {
		if err := b.caFiles(keyset, dir+at, 0, false); err != nil {
			return err
		}
	}
	if err := b.caFiles(pki.KubernetesCA, healthcheckSecrets+"/ca", users.Healthcheck, false); err != nil {
		return err
	}
	return b.serviceAccounts(dir)
}

// serviceAccounts adds the keys that sign service account tokens.
func (b *builder) serviceAccounts(dir string) error {
	if err := b.ownerOnlyFile(dir+"/service-account.pub", b.Config.APIServerConfig.ServiceAccountPublicKeys, 0); err != nil {
		return err
	}
	key, err := b.key(pki.ServiceAccount)
	if err != nil {
		return err
	}
	if err := b.secret(dir+"/service-account.key", key, 0); err != nil {
		return err
	}
	if err := b.knownTokens(dir + "/known_tokens.csv"); err != nil {
		return err
	}
	if s, ok := b.Secrets[pki.EncryptionConfig]; ok && b.Config.APIServerConfig.EncryptionConfigSecretHash != "" {
		return b.secret(dir+"/encryptionconfig.yaml", s.Reveal(), 0)
	}
	return nil
}

// knownTokens adds passwords that never expire, one of which is an
// administrator's: they are written only where the specification has the API
// server read them.
func (b *builder) knownTokens(file string) error {
	if b.localPath(filepath.Clean(b.Config.APIServerConfig.KubeAPIServer.TokenAuthFile)) != file {
		return nil
	}
	var tokens []string
	for _, n := range pki.TokenNames() {
		if s, ok := b.Secrets[n]; ok {
			line := s.Reveal() + "," + n + "," + n
			if n == "admin" {
				line += ",system:masters"
			}
			tokens = append(tokens, line+"\n")
		}
	}
	slices.Sort(tokens)
	return b.secret(file, strings.Join(tokens, ""), 0)
}

// controllerTrust adds what kops-controller serves and signs with.
func (b *builder) controllerTrust() error {
	if err := b.directory(paths.Controller, "0755", 0); err != nil {
		return err
	}
	if err := b.certificatePair(paths.Controller+"/kops-controller", host.Certificate{CommonName: "kops-controller", Usage: string(pki.Server), Owner: users.Controller,
		Names: unique(append([]string{b.internal("kops-controller")}, b.Boot.APIServerIPs...))}); err != nil {
		return err
	}
	signers := []string{pki.KubernetesCA}
	if b.Config.UseCiliumEtcd {
		signers = append(signers, pki.EtcdClientsCiliumCA)
	}
	for _, k := range signers {
		if err := b.caFiles(k, paths.Controller+"/"+k, users.Controller, true); err != nil {
			return err
		}
	}
	var ids strings.Builder
	for _, k := range sortedKeys(b.Config.KeypairIDs) {
		ids.WriteString(k + ": \"" + b.Config.KeypairIDs[k] + "\"\n")
	}
	return b.ownerOnlyFile(paths.Controller+"/keypair-ids.yaml", ids.String(), users.Controller)
}

// etcdTrust adds what etcd's managers sign with.
func (b *builder) etcdTrust() error {
	for _, e := range b.Config.EtcdClusterNames {
		dir := paths.EtcdManager(e)
		if err := b.directory(dir, "0755", 0); err != nil {
			return err
		}
		for _, k := range etcdKeysets(e) {
			if err := b.caFiles(k[0], dir+"/"+k[1], 0, true); err != nil {
				return err
			}
		}
	}
	return nil
}
