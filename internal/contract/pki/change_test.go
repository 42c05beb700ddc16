package pki

import (
	"crypto/x509"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

// issuerAt returns an issuer whose time is some minutes later.
func issuerAt(minutes int) Issuer {
	i := small()
	i.Now = func() time.Time { return testNow().Add(time.Duration(minutes) * time.Minute) }
	return i
}

// grown returns a keyset with some items a minute apart; the first is the primary one.
func grown(t *testing.T, n int) *Keyset {
	t.Helper()
	k := authority(t, KubernetesCA)
	for m := 1; m < n; m++ {
		var err error
		if k, _, err = issuerAt(m).Add(k, k.Name, NewItem{}); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// otherAuthority returns an unrelated authority with a given serial number.
func otherAuthority(t *testing.T, serial *big.Int, r Request) Pair {
	t.Helper()
	r.CommonName, r.Serial = "theirs", serial
	if r.Usage == "" {
		r.Usage = Authority
	}
	p, err := small().SelfSigned(r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestItemsThatAreAdded(t *testing.T) {
	k := grown(t, 2)
	first, second := k.Items[0], k.Items[1]
	if k.Primary != first.ID || compareIDs(second.ID, first.ID) <= 0 {
		t.Fatalf("primary %s of %s, %s", k.Primary, first.ID, second.ID)
	}
	if got := Subject(second.Certificate); got != "cn=kubernetes-ca,serial="+second.ID || second.Certificate.SerialNumber.String() != second.ID {
		t.Errorf("the subject of the second is %s", got)
	}
	number := func(s string) *big.Int { n, _ := new(big.Int).SetString(s, 10); return n }
	low, high := big.NewInt(5), new(big.Int).Lsh(big.NewInt(1), 120)
	between := new(big.Int).Add(number(first.ID), big.NewInt(1<<40))
	free := func(id string, serial *big.Int) bool { return id != serial.String() && compareIDs(id, second.ID) > 0 }
	for name, tt := range map[string]struct {
		serial         *big.Int
		bare, primary  bool
		want           func(id string) bool
		primaryChanges bool
	}{
		"an older one keeps its number":                {low, false, false, func(id string) bool { return id == "5" }, false},
		"one of the future gets a number of now":       {high, false, false, func(id string) bool { return free(id, high) }, false},
		"one between keeps its number":                 {between, false, false, func(id string) bool { return id == between.String() }, false},
		"a primary one has to be the youngest":         {between, false, true, func(id string) bool { return free(id, between) }, true},
		"without a key, it comes before the primary":   {between, true, false, func(id string) bool { return id == "0" }, false},
		"without a key, an older one keeps its number": {low, true, false, func(id string) bool { return id == "5" }, false},
	} {
		p := otherAuthority(t, tt.serial, Request{})
		n := NewItem{Certificate: p.Certificate, Key: p.Key, Primary: tt.primary}
		if tt.bare {
			n.Key = PrivateKey{}
		}
		now, id, err := issuerAt(5).Add(k, k.Name, n)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !tt.want(id) || now.Item(id) == nil || (now.Primary == id) != tt.primaryChanges {
			t.Errorf("%s: it is %s, and the primary %s", name, id, now.Primary)
		}
	}
	p := otherAuthority(t, low, Request{})
	now, id, err := issuerAt(5).Add(k, k.Name, NewItem{Key: p.Key})
	if err != nil || !SamePublic(now.Item(id).Certificate.PublicKey, p.Key.Public()) {
		t.Errorf("a certificate of a key: %v", err)
	}
	bare, _, err := issuerAt(5).Add(k, k.Name, NewItem{Certificate: otherAuthority(t, between, Request{}).Certificate})
	if err == nil {
		_, id, err = issuerAt(5).Add(bare, k.Name, NewItem{Certificate: otherAuthority(t, high, Request{}).Certificate})
	}
	if err != nil || id != "1" {
		t.Errorf("the second without a key is %s: %v", id, err)
	}
	if made, id, err := small().Add(nil, ServiceAccount, NewItem{Primary: true}); err != nil || made.Primary != id || made.Name != ServiceAccount {
		t.Errorf("the first of a keyset: %v", err)
	}
}

func TestItemsThatAreRefused(t *testing.T) {
	k := grown(t, 1)
	p, q := otherAuthority(t, big.NewInt(5), Request{}), otherAuthority(t, big.NewInt(6), Request{})
	leaf, ended := otherAuthority(t, big.NewInt(7), Request{Usage: Server}), otherAuthority(t, big.NewInt(8), Request{Validity: time.Minute})
	for want, n := range map[string]NewItem{
		"a certificate without its private key cannot sign":      {Certificate: p.Certificate, Primary: true},
		"the private key does not match the certificate":         {Certificate: p.Certificate, Key: q.Key},
		"the certificate of cn=theirs is not a certificate auth": {Certificate: leaf.Certificate, Key: leaf.Key},
		"the certificate of cn=theirs expired at 2026-08-01":     {Certificate: ended.Certificate, Key: ended.Key},
		"its key " + k.Primary + " already has this certificate": {Certificate: k.Signer().Certificate},
	} {
		if _, _, err := issuerAt(5).Add(k, k.Name, n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, _, err := small().Add(nil, KubernetesCA, NewItem{}); err == nil || !strings.Contains(err.Error(), "its first key must be the signing key") {
		t.Errorf("the first, which is not to be primary: %v", err)
	}
}

func TestPromoting(t *testing.T) {
	k := grown(t, 3)
	a, b, c := k.Items[0].ID, k.Items[1].ID, k.Items[2].ID
	bare, _, err := issuerAt(9).Add(k, k.Name, NewItem{Certificate: otherAuthority(t, big.NewInt(5), Request{}).Certificate})
	if err != nil {
		t.Fatal(err)
	}
	young, _, err := k.Distrust([]string{c}, testNow())
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		k        *Keyset
		id, want string // want is an identifier, or a part of the error after "!"
	}{
		"the youngest":           {k, "", c},
		"one that is named":      {k, b, b},
		"not a distrusted one":   {young, "", b},
		"itself":                 {k, a, a},
		"no such":                {k, "12", `!has no key "12"`},
		"distrusted":             {young, c, "!is distrusted; trust it first: kops trust keypair kubernetes-ca " + c},
		"one without its key":    {bare, "5", "!the key 5 has no private key"},
		"the youngest with keys": {bare, "", c},
	} {
		now, id, err := tt.k.Promote(tt.id)
		if want, refused := strings.CutPrefix(tt.want, "!"); refused {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || id != tt.want || now.Primary != tt.want || (now == tt.k) != (tt.want == tt.k.Primary) {
			t.Errorf("%s: %s, %v", name, id, err)
		}
	}
}

func TestDistrustingAndTrusting(t *testing.T) {
	k := grown(t, 3)
	a, b, c := k.Items[0].ID, k.Items[1].ID, k.Items[2].ID
	k, _, err := k.Promote(c)
	if err != nil {
		t.Fatal(err)
	}
	now, changed, err := k.Distrust(nil, testNow())
	if err != nil || !slices.Equal(changed, []string{a, b}) || now.Item(a).Distrusted.IsZero() || strings.Count(now.Bundle(), "BEGIN") != 1 {
		t.Fatalf("all that are older: %v, %v", changed, err)
	}
	if k.Item(a).Trusted() == false {
		t.Error("the keyset itself was changed")
	}
	if _, changed, err := now.Distrust([]string{a}, testNow()); err != nil || len(changed) > 0 {
		t.Errorf("once more: %v, %v", changed, err)
	}
	if _, _, err := k.Distrust([]string{a, c}, testNow()); err == nil || !strings.Contains(err.Error(), "is the signing key") {
		t.Errorf("the primary one: %v", err)
	}
	if _, _, err := k.Distrust([]string{"12"}, testNow()); err == nil || !strings.Contains(err.Error(), `has no key "12"`) {
		t.Errorf("none: %v", err)
	}
	back, changed, err := now.Trust([]string{a, c})
	if err != nil || !slices.Equal(changed, []string{a}) || !back.Item(a).Trusted() || back.Item(b).Trusted() {
		t.Errorf("trusted again: %v, %v", changed, err)
	}
}

func TestWhichKeysetsAreChanged(t *testing.T) {
	for name, want := range map[string]bool{KubernetesCA: true, ServiceAccount: true, EtcdPeersCA("main"): true, AggregatorCA: true, "ca": false, "kubelet": false, "master": false} {
		if Rotatable(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// A certificate of one authority of a keyset does not count as another's.
func TestItemsOfAKeysetAreDistinguished(t *testing.T) {
	k := grown(t, 2)
	second, _, err := k.Promote("")
	if err != nil {
		t.Fatal(err)
	}
	p, err := small().Issue(Request{Usage: Client, CommonName: "x"}, second)
	if err != nil {
		t.Fatal(err)
	}
	for n, i := range k.Items {
		pool := x509.NewCertPool()
		pool.AddCert(i.Certificate)
		_, err := p.Certificate.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: testNow(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if (err == nil) != (n == 1) {
			t.Errorf("by the item %d: %v", n, err)
		}
	}
	if got := IssuerOf(p.Certificate); got != fmt.Sprintf("cn=kubernetes-ca,serial=%s", second.Primary) {
		t.Errorf("the issuer is %s", got)
	}
}
