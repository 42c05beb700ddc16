package pki

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
)

// testNow returns the time of all tests here.
func testNow() time.Time { return time.Date(2026, 8, 1, 10, 0, 0, 5, time.UTC) }

// small returns an issuer with short keys, which are quick to generate.
func small() Issuer {
	return Issuer{Rand: bytes.NewReader(slices.Repeat([]byte{0, 0, 0, 7}, 1000)), Now: testNow,
		Generate: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }}
}

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

func authority(t *testing.T, name string) *Keyset {
	t.Helper()
	all, _, err := Ensure(nil, []string{name}, small())
	if err != nil {
		t.Fatal(err)
	}
	return all[name]
}

func TestANewAuthority(t *testing.T) {
	k := authority(t, KubernetesCA)
	want := new(big.Int).Lsh(big.NewInt(testNow().UnixNano()), 32)
	want.Add(want, big.NewInt(7))
	c := k.Signer().Certificate
	if k.Primary != want.String() || c.SerialNumber.Cmp(want) != 0 {
		t.Errorf("identifier %s and serial %s, want %s", k.Primary, c.SerialNumber, want)
	}
	if got := c.Subject.String(); got != "CN=kubernetes-ca" {
		t.Errorf("subject %s", got)
	}
	if !c.IsCA || c.KeyUsage != x509.KeyUsageCRLSign|x509.KeyUsageCertSign || len(c.ExtKeyUsage) != 0 {
		t.Errorf("authority %v, usage %v %v", c.IsCA, c.KeyUsage, c.ExtKeyUsage)
	}
	if got := testNow().Truncate(time.Second).Sub(c.NotBefore); got != 48*time.Hour {
		t.Errorf("starts %s ago, want 48 h", got)
	}
	if got := c.NotAfter.Sub(testNow().Truncate(time.Second)); got != 87600*time.Hour {
		t.Errorf("lives %s, want 87600 h", got)
	}
	if err := c.CheckSignatureFrom(c); err != nil {
		t.Errorf("not self-signed: %v", err)
	}
	if c.MaxPathLen != 0 || !c.MaxPathLenZero {
		t.Errorf("it may sign authorities: path length %d", c.MaxPathLen)
	}
}

func TestKeysAreRSA2048UnlessAnotherSizeIsAsked(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a key of 2048 bits")
	}
	if _, err := (Issuer{Rand: rand.Reader, Now: testNow, KeySize: 1024}).SelfSigned(Request{Usage: Authority, CommonName: "x"}); err == nil || !strings.Contains(err.Error(), "1024") {
		t.Errorf("a key of 1024 bits: %v", err)
	}
	for _, size := range []int{0, 3072} {
		p, err := Issuer{Rand: rand.Reader, Now: testNow, KeySize: size}.SelfSigned(Request{Usage: Authority, CommonName: "x"})
		if err != nil {
			t.Fatal(err)
		}
		want := size
		if size == 0 {
			want = 2048
		}
		if got := p.Certificate.PublicKey.(*rsa.PublicKey).N.BitLen(); got != want {
			t.Errorf("key of %d bits, want %d", got, want)
		}
	}
}

func TestLeafCertificates(t *testing.T) {
	ca := authority(t, KubernetesCA)
	roots := x509.NewCertPool()
	roots.AddCert(ca.Signer().Certificate)
	both := x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	for _, c := range []struct {
		usage Usage
		key   x509.KeyUsage
		ext   []x509.ExtKeyUsage
	}{
		{Client, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
		{Server, both, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
		{ClientServer, both, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}},
	} {
		t.Run(string(c.usage), func(t *testing.T) {
			p, err := small().Issue(Request{Usage: c.usage, CommonName: "n", Organization: []string{"o"},
				Names: []string{" a.example.com ", "", "10.0.0.1", "fd00::1"}, Validity: time.Hour}, ca)
			if err != nil {
				t.Fatal(err)
			}
			x := p.Certificate
			if _, err := x.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: testNow(), KeyUsages: c.ext[:1]}); err != nil {
				t.Error(err)
			}
			if want := new(big.Int).SetBytes(slices.Repeat([]byte{0, 0, 0, 7}, 4)); x.SerialNumber.Cmp(want) != 0 {
				t.Errorf("serial number %x, want 128 random bits, %x", x.SerialNumber, want)
			}
			if x.IsCA || !x.BasicConstraintsValid || x.KeyUsage != c.key || !slices.Equal(x.ExtKeyUsage, c.ext) {
				t.Errorf("authority %v, usage %v %v", x.IsCA, x.KeyUsage, x.ExtKeyUsage)
			}
			if !slices.Equal(x.DNSNames, []string{"a.example.com"}) || len(x.IPAddresses) != 2 || !x.IPAddresses[0].Equal(net.IPv4(10, 0, 0, 1)) {
				t.Errorf("names %v %v", x.DNSNames, x.IPAddresses)
			}
			if got := x.NotAfter.Sub(testNow().Truncate(time.Second)); got != time.Hour {
				t.Errorf("lives %s, want 1 h", got)
			}
		})
	}
}

func TestAPublicKeyIsCertifiedWithoutItsPrivateHalf(t *testing.T) {
	p, err := small().Issue(Request{Usage: Client, CommonName: "n", PublicKey: rsaKey().Public()}, authority(t, KubernetesCA))
	if err != nil {
		t.Fatal(err)
	}
	if !p.Key.IsZero() || !rsaKey().PublicKey.Equal(p.Certificate.PublicKey) {
		t.Errorf("key %v, certified %T", p.Key, p.Certificate.PublicKey)
	}
}

func TestAdminCertificate(t *testing.T) {
	ca := authority(t, KubernetesCA)
	for user, cn := range map[string]string{"": "kubecfg", "Ann": "kubecfg-Ann"} {
		p, err := small().Admin(ca, user, AdminValidity)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := p.Certificate.Subject.String(), "CN="+cn+",O=system:masters"; got != want {
			t.Errorf("subject %s, want %s", got, want)
		}
		if got := p.Certificate.NotAfter.Sub(testNow().Truncate(time.Second)); got != 18*time.Hour {
			t.Errorf("lives %s", got)
		}
	}
}

func TestKeysetNames(t *testing.T) {
	etcd := func(names ...string) (out []api.EtcdClusterSpec) {
		for _, n := range names {
			out = append(out, api.EtcdClusterSpec{Name: n})
		}
		return out
	}
	for _, c := range []struct {
		name string
		spec api.ClusterSpec
		want string
	}{
		{"every cluster", api.ClusterSpec{EtcdClusters: etcd("main", "events")},
			"apiserver-aggregator-ca etcd-clients-ca etcd-manager-ca-events etcd-manager-ca-main etcd-peers-ca-events etcd-peers-ca-main kubernetes-ca service-account"},
		{"cilium's etcd has clients of its own", api.ClusterSpec{EtcdClusters: etcd("cilium")},
			"apiserver-aggregator-ca etcd-clients-ca etcd-clients-ca-cilium etcd-manager-ca-cilium etcd-peers-ca-cilium kubernetes-ca service-account"},
		{"a discovery service", api.ClusterSpec{ServiceAccountIssuerDiscovery: &api.ServiceAccountIssuerDiscoveryConfig{DiscoveryService: &api.DiscoveryServiceOptions{}}},
			"apiserver-aggregator-ca discovery-ca etcd-clients-ca kubernetes-ca service-account"},
	} {
		if got := strings.Join(KeysetNames(&api.Cluster{Spec: c.spec}), " "); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestEnsureKeepsWhatExists(t *testing.T) {
	ca, master := authority(t, KubernetesCA), authority(t, "master")
	existing := map[string]*Keyset{KubernetesCA: ca, "master": master}
	all, created, err := Ensure(existing, []string{KubernetesCA, ServiceAccount, AggregatorCA}, small())
	if err != nil {
		t.Fatal(err)
	}
	if all[KubernetesCA] != ca || all[AggregatorCA] == nil {
		t.Errorf("keysets %v", all)
	}
	if got := all[ServiceAccount]; got.Signer().Certificate != master.Signer().Certificate || got.Name != ServiceAccount {
		t.Errorf("the keyset master became %v", got)
	}
	if len(existing) != 2 {
		t.Errorf("what was there became %v", existing)
	}
	if !slices.Equal(created, []string{ServiceAccount, AggregatorCA}) {
		t.Errorf("created %v", created)
	}
}

func TestTheAuthorityOfAnOldClusterIsKept(t *testing.T) {
	ca := authority(t, "ca")
	all, _, err := Ensure(map[string]*Keyset{"ca": ca}, []string{KubernetesCA}, small())
	if err != nil {
		t.Fatal(err)
	}
	if got := all[KubernetesCA]; got.Signer().Certificate != ca.Signer().Certificate {
		t.Errorf("the keyset ca became %v", got)
	}
	existing := map[string]*Keyset{"ca": ca}
	if got := Named(existing, KubernetesCA); got == nil || got.Name != KubernetesCA || got.Signer().Certificate != ca.Signer().Certificate {
		t.Errorf("the authority is read as %v", got)
	}
	if got := Named(existing, ServiceAccount); got != nil {
		t.Errorf("the keys of service accounts are %v", got)
	}
	existing[KubernetesCA] = authority(t, KubernetesCA)
	if got := Named(existing, KubernetesCA); got != existing[KubernetesCA] {
		t.Errorf("the new name does not come first: %v", got)
	}
}

func TestEnsureFailsWithoutRandomness(t *testing.T) {
	i := small()
	i.Rand = strings.NewReader("ab")
	if _, _, err := Ensure(nil, []string{KubernetesCA}, i); err == nil {
		t.Error("no error")
	}
}

func TestEnsureEndsWithItsContext(t *testing.T) {
	i := small()
	endless, reached := make(chan struct{}), make(chan struct{}, 2)
	defer close(endless)
	i.Generate = func() (crypto.Signer, error) {
		reached <- struct{}{}
		<-endless
		return nil, io.EOF
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		<-reached
		stop()
	}()
	if _, _, err := Ensure(nil, []string{KubernetesCA, AggregatorCA}, i.Until(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// aged returns a keyset of items with the identifiers; those with a leading "!" are distrusted.
func aged(t *testing.T, primary string, ids ...string) (*Keyset, error) {
	t.Helper()
	var items []Item
	for _, id := range ids {
		id, distrusted := strings.CutPrefix(id, "!")
		p, err := small().SelfSigned(Request{Usage: Authority, CommonName: "id " + id, Key: NewPrivateKey(rsaKey())})
		if err != nil {
			t.Fatal(err)
		}
		i := Item{ID: id, Certificate: p.Certificate, Key: p.Key}
		if distrusted {
			i.Distrusted = testNow()
		}
		items = append(items, i)
	}
	return NewKeyset("test", primary, items...)
}

func TestItemsAreOrderedByAge(t *testing.T) {
	for _, ids := range [][]string{{"2", "x"}, {"x", "2"}} { // in whatever order they are given
		if k, err := aged(t, "2", ids...); err != nil || k.Items[0].ID != "x" {
			t.Errorf("of %v, %s is first: %v", ids, k.Items[0].ID, err)
		}
	}
	k, err := aged(t, "2", "100", "2", "x", "!10", "b")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, i := range k.Items {
		ids = append(ids, i.ID)
	}
	if got := strings.Join(ids, " "); got != "b x 2 10 100" {
		t.Errorf("order %s", got)
	}
	var subjects []string
	for rest := k.Bundle(); ; {
		c, err := ParseCertificate([]byte(rest))
		if err != nil {
			break
		}
		subjects = append(subjects, c.Subject.CommonName)
		_, rest, _ = strings.Cut(rest, "-----END CERTIFICATE-----\n")
	}
	if got := strings.Join(subjects, ", "); got != "id b, id x, id 2, id 100" {
		t.Errorf("bundle of %s", got)
	}
	keys, err := k.PublicKeys()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(keys, "-----BEGIN RSA PUBLIC KEY-----\nMII"); got != 4 {
		t.Errorf("%d public keys in\n%s", got, keys)
	}
}

func TestKeysetsThatCannotSignAreRefused(t *testing.T) {
	for _, c := range []struct {
		primary string
		ids     []string
		want    string
	}{
		{"3", []string{"1", "2"}, `keyset test: the signing key "3" does not exist`},
		{"2", []string{"1", "!2"}, "keyset test: the signing key 2 is distrusted"},
		{"1", []string{"1", "1"}, "keyset test: the key 1 occurs twice"},
		{"", nil, `keyset test: the signing key "" does not exist`},
	} {
		if _, err := aged(t, c.primary, c.ids...); err == nil || err.Error() != c.want {
			t.Errorf("%s of %v: %v, want %s", c.primary, c.ids, err, c.want)
		}
	}
	if _, err := NewKeyset("test", "1", Item{ID: "1", Key: NewPrivateKey(rsaKey())}); err == nil {
		t.Error("a primary without certificate is accepted")
	}
	if _, err := NewKeyset("test", "1", Item{ID: "1", Certificate: &x509.Certificate{}}); err == nil {
		t.Error("a primary without key is accepted")
	}
}

func TestTheAPIObjectHoldsTheWholeKeyset(t *testing.T) {
	k, err := aged(t, "2", "1", "!3", "2")
	if err != nil {
		t.Fatal(err)
	}
	o, err := k.ToAPI()
	if err != nil {
		t.Fatal(err)
	}
	back, err := FromAPI(o)
	if err != nil {
		t.Fatal(err)
	}
	again, err := back.ToAPI()
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(o)
	b, _ := json.Marshal(again)
	if !bytes.Equal(a, b) {
		t.Errorf("%s\nbecame %s", a, b)
	}
	if o.Spec.PrimaryID != "2" || o.Spec.Keys[2].DistrustTimestamp == nil {
		t.Errorf("object %s", a)
	}
}

func TestThePrimaryOfAKeysetThatNamesNone(t *testing.T) {
	k, err := aged(t, "2", "1", "2", "10", "!11")
	if err != nil {
		t.Fatal(err)
	}
	for _, named := range []string{"", "11", "5"} {
		o, err := k.ToAPI()
		if err != nil {
			t.Fatal(err)
		}
		o.Spec.PrimaryID = named
		withoutKey := o.Spec.Keys[0]
		withoutKey.ID, withoutKey.PrivateMaterial = "12", nil
		o.Spec.Keys = append(o.Spec.Keys, withoutKey)
		back, err := FromAPI(o)
		if err != nil {
			t.Fatal(err)
		}
		if back.Primary != "10" {
			t.Errorf("named %q: primary %s, want 10", named, back.Primary)
		}
	}
}

func TestPrivateKeysOfEveryFormAreRead(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []PrivateKey{NewPrivateKey(rsaKey()), NewPrivateKey(ec)} {
		text, err := k.PEM()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParsePrivateKey(append(EncodeCertificate(authority(t, "x").Signer().Certificate), text...))
		if err != nil {
			t.Fatal(err)
		}
		if back.String() != k.String() {
			t.Errorf("%s became %s", k, back)
		}
	}
	for _, text := range []string{"", "no PEM", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n"} {
		if _, err := ParsePrivateKey([]byte(text)); err == nil {
			t.Errorf("%q is taken for a key", text)
		}
	}
}

func TestNothingPrintedShowsAKeyOrASecret(t *testing.T) {
	token, err := newToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	type holder struct {
		Key    PrivateKey
		Token  Secret
		hidden Secret
	}
	h := holder{NewPrivateKey(rsaKey()), token, token}
	doc, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{string(doc)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		texts = append(texts, fmt.Sprintf(verb, h), fmt.Sprintf(verb, &h), fmt.Sprintf(verb, h.Key), fmt.Sprintf(verb, []Secret{token}))
	}
	prime := rsaKey().Primes[0]
	for _, text := range texts {
		for _, leak := range []string{token.Reveal(), fmt.Sprintf("%x", token.Reveal()), prime.String(), fmt.Sprintf("%x", prime), rsaKey().D.String()} {
			if strings.Contains(text, leak) {
				t.Errorf("%.200s shows a secret", text)
			}
		}
	}
	if len(h.hidden.Reveal()) != 32 || strings.ContainsAny(h.hidden.Reveal(), "+/=") {
		t.Errorf("the token is %q", h.hidden.Reveal())
	}
}

func TestSecretsAreStoredAsJSON(t *testing.T) {
	data, err := EncodeSecret(NewSecret("abc"))
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != `{"Data":"YWJj"}` {
		t.Errorf("stored as %s", data)
	}
	s, err := DecodeSecret(data)
	if err != nil || s.Reveal() != "abc" {
		t.Errorf("read back as %q, %v", s.Reveal(), err)
	}
	for _, bad := range []string{"", "{", `{"Data":"?"}`, `{"data2":"YWJj"}`} {
		if _, err := DecodeSecret([]byte(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

func TestMissingTokensAreMade(t *testing.T) {
	made, err := MissingTokens(map[string]bool{"admin": true, "system:dns": true}, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if len(made) != len(TokenNames())-2 || made["kube"].Reveal() == made["kubelet"].Reveal() {
		t.Errorf("made %v", made)
	}
	if _, err := MissingTokens(nil, io.LimitReader(rand.Reader, 200)); err == nil {
		t.Error("no error without randomness")
	}
}

func TestTheKeyThatEncryptsIsRandomAndNeverShown(t *testing.T) {
	one, err := NewEncryptionConfig(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewEncryptionConfig(rand.Reader)
	if err != nil || one.Reveal() == other.Reveal() {
		t.Fatal("two are the same", err)
	}
	var c struct {
		Resources []struct {
			Resources []string
			Providers []struct {
				Secretbox struct {
					Keys []struct{ Name, Secret string }
				}
				Identity *struct{}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(one.Reveal()), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Resources) != 1 || len(c.Resources[0].Providers) != 1 || !slices.Equal(c.Resources[0].Resources, []string{"secrets"}) {
		t.Fatalf("%+v", c)
	}
	key := c.Resources[0].Providers[0].Secretbox.Keys[0].Secret
	if raw, err := base64.StdEncoding.DecodeString(key); err != nil || len(raw) != 32 {
		t.Errorf("a key of %d bytes, %v", len(raw), err)
	}
	if text := fmt.Sprintf("%v %+v %s %q", one, one, one, one); strings.Contains(text, key) {
		t.Error("the key is shown")
	}
	if _, err := NewEncryptionConfig(io.LimitReader(rand.Reader, 31)); err == nil {
		t.Error("a key of too little randomness")
	}
}
