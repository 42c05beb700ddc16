package rehearsal

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/platform/local/localtest"
)

// TestNamesAndTokens creates a cluster whose names are in a public zone, and whose tokens are
// checked against published keys. If KOPS_E2E=whole is set it has three control planes, one of
// which is killed.
func TestNamesAndTokens(t *testing.T) {
	skipUnlessPicked(t, "aws", 1, 3)
	planes := 1
	if localtest.IsFull() {
		planes = 3
	}
	w := newWorld(t, "aws", "", "s3://my-state-store")
	w.bucket("my-state-store")
	w.bucket("my-keys")
	w.zone("example.com")
	const exports = "export KOPS_STATE_STORE=s3://my-state-store; "
	w.must(exports + fmt.Sprintf("kops create cluster --zones us-east-1a,us-east-1b,us-east-1c --control-plane-count %d --node-count 2 --networking kubenet ", planes) +
		"--dns public --dns-zone example.com --discovery-store s3://my-keys/" + cluster + " " + cluster)
	begun := time.Now()
	w.must(exports + "kops update cluster " + cluster + " --yes --admin")
	w.must(exports + "kops validate cluster " + cluster + " --wait 10m --interval 1s")
	t.Logf("FIGURE %d + 2 from before the update to validated: %s", planes, time.Since(begun).Round(100*time.Millisecond))
	w.nodes(planes + 2)
	w.serves()
	w.waitForNames(planes)
	w.checkTokenAccepted()

	if localtest.IsFull() {
		w.note()
		w.killInstance(exports, "control plane of three", w.nodesWithRole("control-plane")[0])
		w.noted()
		w.waitForNames(planes)
	}

	w.must(exports + "kops delete cluster " + cluster + " --yes")
	w.waitUntilGone("my-state-store", "my-keys")
	if text := w.route53(http.MethodGet, "hostedzone", ""); strings.Contains(text, cluster) {
		t.Errorf("the deletion has left records:\n%s", text)
	}
}

// route53 calls Route 53, which the emulator recognizes by the signature's service.
func (w *world) route53(method, path, body string) string {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), method, "https://route53.amazonaws.com/2013-04-01/"+path, strings.NewReader(body))
	w.ok(err)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=rehearsal/20260101/us-east-1/route53/aws4_request, SignedHeaders=host, Signature=0")
	return w.send(r)
}

// zone creates a hosted zone.
func (w *world) zone(name string) {
	w.Helper()
	w.route53(http.MethodPost, "hostedzone", `<CreateHostedZoneRequest xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><Name>`+name+`</Name><CallerReference>1</CallerReference></CreateHostedZoneRequest>`)
}

// waitForNames waits until the cluster's names resolve to its control planes, and to no other address.
func (w *world) waitForNames(planes int) {
	w.Helper()
	for _, name := range []string{"api.internal." + cluster, "kops-controller.internal." + cluster} {
		w.wait(fmt.Sprintf("%s leads to %d control planes", name, planes), func() error {
			found, err := dialer().Resolver.LookupHost(w.Context(), name)
			if err != nil {
				return err
			}
			list, err := w.api().CoreV1().Nodes().List(w.Context(), metav1.ListOptions{LabelSelector: "node-role.kubernetes.io/control-plane"})
			if err != nil {
				return err
			}
			var want []string
			for _, n := range list.Items {
				want = append(want, n.Status.Addresses[0].Address)
			}
			slices.Sort(found)
			slices.Sort(want)
			if len(want) != planes || !slices.Equal(found, want) {
				return fmt.Errorf("it leads to %v, and the control planes are %v", found, want)
			}
			return nil
		})
	}
}

// checkTokenAccepted checks that the token of a service account is signed by the published keys.
func (w *world) checkTokenAccepted() {
	w.Helper()
	seconds := int64(600)
	got, err := w.api().CoreV1().ServiceAccounts("default").CreateToken(w.Context(), "default",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"amazonaws.com"}, ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	w.ok(err)
	parts := strings.Split(got.Status.Token, ".")
	var head struct{ Kid, Alg string }
	var claims struct {
		Iss, Sub string
		Aud      []string
	}
	w.decode(parts[0], &head)
	w.decode(parts[1], &claims)
	if claims.Sub != "system:serviceaccount:default:default" || !slices.Contains(claims.Aud, "amazonaws.com") || head.Alg != "RS256" {
		w.Errorf("the token is %+v, %+v", head, claims)
	}
	var found struct {
		Issuer string
		URI    string `json:"jwks_uri"`
	}
	w.ok(json.Unmarshal([]byte(w.query(http.MethodGet, claims.Iss+"/.well-known/openid-configuration", "")), &found))
	if found.Issuer != claims.Iss {
		w.Errorf("the issuer %s says that it is %s", claims.Iss, found.Issuer)
	}
	var keys struct{ Keys []struct{ Kid, N, E string } }
	w.ok(json.Unmarshal([]byte(w.query(http.MethodGet, found.URI, "")), &keys))
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	w.ok(err)
	for _, k := range keys.Keys {
		n, nerr := base64.RawURLEncoding.DecodeString(k.N)
		e, eerr := base64.RawURLEncoding.DecodeString(k.E)
		if k.Kid != head.Kid || nerr != nil || eerr != nil {
			continue
		}
		key := &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}
		if err := rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature); err != nil {
			w.Errorf("the token is not signed by the published key: %v", err)
		}
		return
	}
	w.Errorf("the key %s is not published", head.Kid)
}

func (w *world) decode(part string, into any) {
	w.Helper()
	text, err := base64.RawURLEncoding.DecodeString(part)
	w.ok(err)
	w.ok(json.Unmarshal(text, into))
}
