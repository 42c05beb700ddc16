package kops_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/api/status"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/clusterstore"
)

// testControlPlane is a control plane of one machine in the state of the store when it was last
// rolled: its API server presents a certificate of the authority that signed then, and trusts those
// that were trusted then.
type testControlPlane struct {
	b  *bench
	mu sync.Mutex

	pool    *x509.CertPool
	serving tls.Certificate
	node    corev1.Node
	// away is how often the API server reports that it is not ready.
	away int
	// keepCertificate prevents one certificate from being reissued.
	keepCertificate bool
	kept            status.Certificate
}

// roll makes the machine match the store.
func (r *testControlPlane) roll(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := r.b.stores().Open(context.Background(), r.b.cfg.Store.URL)
	if err != nil {
		return err
	}
	cs, err := clusterstore.Open(clusterstore.Config{State: s, Backends: r.b.stores(), Now: r.b.cfg.World.Now})
	if err != nil {
		return err
	}
	cl, err := cs.Load(context.Background(), name)
	if err != nil {
		return err
	}
	f, err := cs.Folders(context.Background(), cl.Spec, cl)
	if err != nil {
		return err
	}
	keysets, err := f.Keysets(context.Background())
	if err != nil {
		return err
	}
	ca := keysets[pki.KubernetesCA]
	r.pool = x509.NewCertPool()
	r.pool.AppendCertsFromPEM([]byte(ca.Bundle()))
	issuer := pki.Issuer{Rand: rand.Reader, Now: time.Now, Generate: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }}
	p, err := issuer.Issue(pki.Request{Usage: pki.Server, CommonName: "kubernetes-master", Names: []string{"api.internal." + name}}, ca)
	if err != nil {
		return err
	}
	r.serving = tls.Certificate{Certificate: [][]byte{p.Certificate.Raw}, PrivateKey: signer(p.Key)}
	text, _, err := f.Base.Store.Get(context.Background(), "igconfig/control-plane/control-plane-here/nodeupconfig.yaml")
	if err != nil {
		return err
	}
	held := []status.Certificate{{File: "/srv/kubernetes/kubelet-server.crt", Subject: "n", Ends: p.Certificate.NotAfter, Authority: pki.SignedBy(p.Certificate)}}
	if r.kept.File == "" {
		r.kept = held[0]
		r.kept.File = "/srv/kubernetes/other.crt"
	}
	if r.keepCertificate {
		held = append(held, r.kept)
	}
	r.node = corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "control-plane-here-0", Labels: map[string]string{api.LabelInstanceGroup: "control-plane-here"}, Annotations: map[string]string{
		labels.NodeConfig: labels.Write(labels.Running{Hash: nodeconfig.Hash(text)}), labels.Certificates: labels.Write(held)}}}
	return nil
}

// signer returns a key as a crypto.PrivateKey for TLS.
func signer(k pki.PrivateKey) crypto.PrivateKey {
	text, err := k.PEM()
	if err != nil {
		return nil
	}
	b, _ := pem.Decode(text)
	key, err := x509.ParseECPrivateKey(b.Bytes)
	if err != nil {
		return nil
	}
	return key
}

func (r *testControlPlane) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var answer any
	switch q.URL.Path {
	case "/readyz":
		if r.away--; r.away >= 0 {
			http.Error(w, "[-]etcd failed: reason withheld", http.StatusInternalServerError)
			return
		}
		answer = "ok"
	case "/api/v1/nodes":
		answer = corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, Items: []corev1.Node{r.node}}
	case "/api/v1/pods":
		bare := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bare"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "t", VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}}}}}}}}
		answer = corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: []corev1.Pod{bare}}
	case "/api/v1/secrets":
		answer = corev1.SecretList{TypeMeta: metav1.TypeMeta{Kind: "SecretList", APIVersion: "v1"}}
	case "/apis/apps/v1/replicasets":
		answer = map[string]any{"kind": "ReplicaSetList", "apiVersion": "apps/v1", "items": []any{}}
	case "/api":
		answer = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{}}
	case "/apis":
		answer = metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
	default:
		http.NotFound(w, q)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // a test
}

// serve starts the API server.
func (r *testControlPlane) serve(t *testing.T) string {
	t.Helper()
	if err := r.roll(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(r)
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return &tls.Config{Certificates: []tls.Certificate{r.serving}, ClientCAs: r.pool, ClientAuth: tls.VerifyClientCertIfGiven, Time: r.b.cfg.World.Now}, nil
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// rotating returns a cluster whose clock advances, and its machine.
func rotating(t *testing.T) (*bench, *testControlPlane, kops.RotateOptions) {
	t.Helper()
	b := newAppliedBench(t)
	b.now = b.now.Add(time.Hour)
	b.Client = b.client(func(c *kops.Config) {
		c.World.Sleep = func(ctx context.Context, d time.Duration) error { b.now = b.now.Add(d); return ctx.Err() }
	})
	r := &testControlPlane{b: b}
	o := kops.RotateOptions{Apply: true, Roll: r.roll}
	o.Server = r.serve(t)
	return b, r, o
}

func TestKeysAreRotatedWhileTheClusterServes(t *testing.T) {
	b, r, o := rotating(t)
	before, err := b.Keypairs(nil).List(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	o.On = func(e kops.Event) error {
		if e.Kind == kops.EventRotation {
			steps = append(steps, e.Rotation.Step)
		}
		return nil
	}
	plan := o
	plan.Apply = false
	if p, err := b.Rotate(t.Context(), name, "all", plan); err != nil || !p.Began.IsZero() || p.Step != "make" || len(p.Keysets) != len(before) || len(steps) > 0 {
		t.Fatalf("the plan: %+v, %v", p, err)
	} else if s := p.Steps[1]; s.Name != "trust" || s.Restarts != 1 || s.Replaces != 2 || s.Minutes != 5 || !slices.Equal(p.Left, []string{"default/bare"}) || p.Unknown != "" {
		t.Errorf("it foresees %+v, and leaves %v; unknown: %s", s, p.Left, p.Unknown)
	}
	if p, err := b.Rotate(t.Context(), name, "etcd", plan); err != nil || p.Steps[1].Restarts != 1 || p.Steps[1].Replaces != 0 || len(p.Left) > 0 {
		t.Errorf("of etcd it foresees %+v, %v: only the control plane has its keys", p, err)
	}
	done, err := b.Rotate(t.Context(), name, "all", o)
	if err != nil || done.Step != "done" || done.Ended.IsZero() {
		t.Fatalf("%+v, %v", done, err)
	}
	if got := strings.Join(steps, " "); got != "make trust pods promote reissue tokens distrust forget backup" {
		t.Errorf("the steps were %s", got)
	}
	after, err := b.Keypairs(nil).List(t.Context(), name)
	if err != nil || len(after) != 2*len(before) {
		t.Fatalf("%d items, %v", len(after), err)
	}
	for _, k := range after {
		old := slices.ContainsFunc(before, func(o kops.Keypair) bool { return o.ID == k.ID && o.Keyset == k.Keyset })
		if old != (k.Distrusted != nil) || old == k.Primary {
			t.Errorf("%s %s, old %v: primary %v, distrusted %v", k.Keyset, k.ID, old, k.Primary, k.Distrusted)
		}
	}
	all, err := b.Certificates(t.Context(), name, o.ReachOptions, nil)
	if err != nil || all.Problem != nil || len(all.All) != len(after)+2 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, c := range all.All {
		if c.Holder != "store" && (c.Keyset != pki.KubernetesCA || c.Former || c.Distrusted) {
			t.Errorf("%+v", c)
		}
	}
	if len(r.pool.Subjects()) != 1 { //nolint:staticcheck // the pool is not the system pool
		t.Error("the API server believes more than one authority")
	}
}

// Any user's command continues an interrupted one, and nothing is created twice.
func TestARotationThatWasCutOffGoesOn(t *testing.T) {
	b, _, o := rotating(t)
	before, err := b.Keypairs(nil).List(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	stop, calls, last := errors.New("stop"), 0, ""
	o.On = func(e kops.Event) error {
		switch {
		case e.Kind != kops.EventRotation && e.Kind != kops.EventLeased:
			return nil
		case e.Kind == kops.EventRotation && e.Rotation.Step != last:
			last = e.Rotation.Step
			return stop // before each step
		}
		calls++
		if calls%3 == 0 {
			return stop // and while the lease is held
		}
		return nil
	}
	for range 100 {
		done, err := b.Rotate(t.Context(), name, "ca", o)
		if err == nil {
			if done.Step != "done" {
				t.Errorf("it ended at %s", done.Step)
			}
			after, err := b.Keypairs(nil).List(t.Context(), name)
			if err != nil || len(after) != len(before)+2 {
				t.Errorf("%d items of %d, %v", len(after), len(before), err)
			}
			return
		}
		if !strings.Contains(err.Error(), "stop") {
			t.Fatal(err)
		}
		if last != "make" || calls > 0 {
			if _, err := b.Rotate(t.Context(), name, "etcd", kops.RotateOptions{}); last != "make" && !fault.Is(err, fault.Conflict) {
				t.Fatalf("another is begun meanwhile, at %s: %v", last, err)
			}
		}
	}
	t.Error("it does not end")
}

func TestARotationWaitsForMachines(t *testing.T) {
	b, r, o := rotating(t)
	o.Roll = nil
	if _, err := b.Rotate(t.Context(), name, "ca", o); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "step trust: 1 nodes have not reported") {
		t.Fatalf("nobody rolls: %v", err)
	}
	r.keepCertificate, o.Roll = true, r.roll
	_, err := b.Rotate(t.Context(), name, "ca", o)
	if !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "step distrust: the old keys are still in use by node control-plane-here-0: /srv/kubernetes/other.crt of n, signed by kubernetes-ca ") {
		t.Fatalf("a machine holds an old certificate: %v", err)
	}
	k, err := b.Keypairs(nil).List(t.Context(), name, pki.KubernetesCA)
	if err != nil || len(k) != 2 || k[0].Distrusted != nil {
		t.Errorf("%+v, %v", k, err)
	}
	r.keepCertificate = false
	if err := r.roll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if done, err := b.Rotate(t.Context(), name, "ca", o); err != nil || done.Step != "done" {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestWhatCannotBeRotated(t *testing.T) {
	b, _, o := rotating(t)
	for what, want := range map[string]string{"kubelet": "cannot rotate", "encryption": "spec.encryptionConfig is not true"} {
		if _, err := b.Rotate(t.Context(), name, what, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestTheKeyThatEncryptsIsRotated(t *testing.T) {
	b, _, o := rotating(t)
	config := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [{resources: [\"*.none\"], providers: [{secretbox: {keys: [{name: a, secret: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=}]}}]}]"
	if _, err := b.Secrets(nil).Create(t.Context(), name, kops.SecretEncryptionConfig, []byte(config), false); err != nil {
		t.Fatal(err)
	}
	b.set("cluster", "spec.encryptionConfig=true")
	if _, err := b.Update(t.Context(), name, kops.UpdateOptions{Apply: true}); err != nil {
		t.Fatal(err)
	}
	if done, err := b.Rotate(t.Context(), name, "encryption", o); err != nil || done.Step != "done" || !done.Encryption {
		t.Fatalf("%+v, %v", done, err)
	}
	s, err := b.stores().Open(t.Context(), b.cfg.Store.URL)
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := s.Get(t.Context(), name+"/secrets/encryptionconfig")
	if err != nil {
		t.Fatal(err)
	}
	secret, err := pki.DecodeSecret(data)
	if err != nil || strings.Contains(secret.Reveal(), "name: a\n") || strings.Count(secret.Reveal(), "name: key-") != 1 {
		t.Errorf("the old key is still there, or the new is not: %v", err)
	}
}
