package channels

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kops.local/kops/api"
	"kops.local/kops/internal/store"
)

// stepClock calls a function instead of sleeping.
type stepClock struct{ sleep func(time.Duration) }

func (*stepClock) Now() time.Time { return time.Now() }

func (s *stepClock) Sleep(ctx context.Context, d time.Duration) error {
	s.sleep(d)
	return ctx.Err()
}

// status returns the status code of /readyz.
func status(l *Loop) int {
	w := httptest.NewRecorder()
	l.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
	return w.Code
}

func TestReadinessIsServedAtOnePath(t *testing.T) {
	w := httptest.NewRecorder()
	(&Loop{}).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != 404 {
		t.Errorf("got %d", w.Code)
	}
}

func TestChannelsAreReadOverHTTP(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/addons/bootstrap-channel.yaml":
			_, _ = w.Write([]byte("kind: Addons\nmetadata: {name: bootstrap}\nspec:\n  addons:\n  - {name: a.io, manifest: a.io/x.yaml, manifestHash: " + digest([]byte("text")) + "}\n  - {name: b.io, manifest: 'https://elsewhere/y.yaml'}\n  - {name: c.io, manifest: 'http://elsewhere/z.yaml'}\n"))
		case "/addons/a.io/x.yaml":
			_, _ = w.Write([]byte("\ntext\n\n"))
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	fetch := NewFetch(store.Backends{store.Memories()}, s.Client())
	all, err := Load(t.Context(), fetch, s.URL+"/addons/bootstrap-channel.yaml")
	if err != nil || len(all) != 3 || all[1].manifest != "https://elsewhere/y.yaml" {
		t.Fatalf("got %+v, %v", all, err)
	}
	if text, err := all[0].manifestText(t.Context(), fetch); err != nil || strings.TrimSpace(string(text)) != "text" {
		t.Errorf("got %q, %v", text, err)
	}
	if text, err := all[2].manifestText(t.Context(), fetch); err == nil || !strings.Contains(err.Error(), "without TLS and without a digest") {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := Load(t.Context(), fetch, s.URL+"/absent.yaml"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v", err)
	}
}

// TestADigestBindsAManifest uses a server without TLS, whose responses are trusted only
// because of a digest.
func TestADigestBindsAManifest(t *testing.T) {
	text := "kind: ConfigMap\n"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }))
	defer s.Close()
	fetch := NewFetch(store.Backends{store.Memories()}, s.Client())
	sum := sha256.Sum256([]byte(text))
	url := s.URL + "/x.yaml"
	for at, says := range map[string]string{
		url: "without TLS and without a digest", url + api.ManifestDigest + strings.Repeat("0", 64): "the cluster's spec wants", url + api.ManifestDigest: "wants \"\"",
		url + api.ManifestDigest + hex.EncodeToString(sum[:]): "",
	} {
		all, err := Load(t.Context(), fetch, at)
		if says != "" && (err == nil || !strings.Contains(err.Error(), says)) || says == "" && (err != nil || all[0].Channel != url) {
			t.Errorf("%s: %+v, %v", at, all, err)
		}
	}
}

func TestBadChannelsAreRefused(t *testing.T) {
	for text, says := range map[string]string{
		"kind: Addons\nspec: {addons: [{name: a}]}":                                                   "no name or no manifest",
		"kind: Addons\nspec: {addons: [{name: a, manifest: m, kubernetesVersion: '1'}]}":              "kubernetesVersion",
		"kind: Addons\nspec: {addons: [{name: a, manifest: m, needsRollingUpdate: some}]}":            "use control-plane, workers or all",
		"kind: Addons\nspec: {addons: [{name: a, manifest: m, prune: {kinds: [{kind: ConfigMap}]}}]}": "remove objects that belong to others",
	} {
		_, err := Load(t.Context(), func(context.Context, string) ([]byte, error) { return []byte(text), nil }, "/channel.yaml")
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", text, err, says)
		}
	}
	if _, err := Load(t.Context(), nil, "channel.yaml"); err == nil || !strings.Contains(err.Error(), "relative") {
		t.Errorf("got %v", err)
	}
}

func TestSupersedes(t *testing.T) {
	v := Version{"s3://a", "id", "hash", 1}
	for _, tt := range []struct {
		old  Version
		want bool
	}{
		{Version{}, true},
		{Version{"s3://a", "id", "hash", 1}, false},
		{Version{"s3://elsewhere", "id", "hash", 1}, false},
		{Version{"s3://a", "id", "hash", 2}, false},
		{Version{"s3://a", "id", "hash", 0}, true},
		{Version{"s3://a", "id", "other", 1}, true},
		{Version{"s3://a", "other", "hash", 1}, true},
	} {
		if got := v.supersedes(tt.old); got != tt.want {
			t.Errorf("over %+v: %v", tt.old, got)
		}
	}
}

func TestManifestsAreDecodedInOrder(t *testing.T) {
	objects, err := decode([]byte("# only a comment\n---\n" + widgets + "---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- {apiVersion: v1, kind: Pod, metadata: {name: b}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objects {
		got = append(got, nameOf(o))
	}
	want := "Namespace widgets,CustomResourceDefinition widgets.example.com,ConfigMap a,Widget widgets/w,Pod b"
	if s := strings.Join(got, ","); s != want {
		t.Errorf("got %s", s)
	}
	for text, says := range map[string]string{
		"kind: Pod":                 "name",
		"apiVersion: v1\nkind: Pod": "no name",
		"a: 1\na: 2":                "already",
		"hello":                     "document 1",
	} {
		if _, err := decode([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", text, err, says)
		}
	}
}

func TestHealth(t *testing.T) {
	object := func(apiVersion, kind string, generation int64, spec, status map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind,
			"metadata": map[string]any{"name": "x", "generation": generation}, "spec": spec, "status": status}}
	}
	established := func(status string) map[string]any {
		return map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": status}}}
	}
	type m = map[string]any
	onDelete := m{"updateStrategy": m{"type": string(appsv1.OnDeleteDaemonSetStrategyType)}}
	for name, tt := range map[string]struct {
		o    *unstructured.Unstructured
		says string
	}{
		"unknown kinds are healthy":    {object("v1", "ConfigMap", 1, nil, nil), ""},
		"a change not seen":            {object("apps/v1", "Deployment", 2, m{"replicas": int64(0)}, m{"observedGeneration": int64(1)}), "not seen"},
		"old pods":                     {object("apps/v1", "Deployment", 1, nil, m{"observedGeneration": int64(1), "availableReplicas": int64(1)}), "0 of 1 pods have the new version"},
		"pods not available":           {object("apps/v1", "Deployment", 1, m{"replicas": int64(3)}, m{"observedGeneration": int64(1), "updatedReplicas": int64(3), "availableReplicas": int64(2)}), "2 of 3 pods are available"},
		"a deployment of none":         {object("apps/v1", "Deployment", 1, m{"replicas": int64(0)}, m{"observedGeneration": int64(1)}), ""},
		"daemons on no node":           {object("apps/v1", "DaemonSet", 1, nil, m{"observedGeneration": int64(1)}), ""},
		"old daemons":                  {object("apps/v1", "DaemonSet", 1, nil, m{"observedGeneration": int64(1), "desiredNumberScheduled": int64(2), "numberAvailable": int64(2)}), "0 of 2"},
		"old daemons that may be so":   {object("apps/v1", "DaemonSet", 1, onDelete, m{"observedGeneration": int64(1), "desiredNumberScheduled": int64(2), "numberAvailable": int64(2)}), ""},
		"daemons that are not running": {object("apps/v1", "DaemonSet", 1, onDelete, m{"observedGeneration": int64(1), "desiredNumberScheduled": int64(2), "numberAvailable": int64(1)}), "1 of 2 pods are available"},
		"a set that is not ready":      {object("apps/v1", "StatefulSet", 1, nil, m{"observedGeneration": int64(1), "updatedReplicas": int64(1)}), "0 of 1 pods are ready"},
		"a kind being defined":         {object("apiextensions.k8s.io/v1", "CustomResourceDefinition", 1, nil, nil), "not Established"},
		"a kind refused":               {object("apiextensions.k8s.io/v1", "CustomResourceDefinition", 1, nil, established("False")), "not Established"},
		"a kind defined":               {object("apiextensions.k8s.io/v1", "CustomResourceDefinition", 1, nil, established("True")), ""},
	} {
		got, err := whyUnhealthy(tt.o)
		if err != nil || (got == "") != (tt.says == "") || !strings.Contains(got, tt.says) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tt.says)
		}
	}
}

func TestBadLabelsAreRefused(t *testing.T) {
	if _, err := ParseLabels("=x"); err == nil {
		t.Error("a label without a name is accepted")
	}
	if got, err := ParseLabels(""); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
}
