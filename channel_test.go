package kops_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"kops.local/kops"
	"kops.local/kops/fakecloud"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/store"
)

const ours = `apiVersion: kops.k8s.io/v1alpha2
kind: Channel
spec:
  cluster:
    kubernetesVersion: 1.35.4
  images:
  - providerID: fake
    architectureID: amd64
    name: ours
    kubernetesVersion: ">=1.30.0"
  kubernetesVersions:
  - range: ">=1.30.0"
    recommendedVersion: 1.35.4
    requiredVersion: 1.35.0
  kopsVersions:
  - range: ">=1.30.0-alpha.1"
    kubernetesVersion: 1.35.4
`

func request(channel string) kops.NewClusterRequest {
	return kops.NewClusterRequest{Options: newcluster.Options{ClusterName: name, CloudProvider: fakecloud.Name, Zones: []string{"here"}, Channel: channel}}
}

func TestAChannelIsReadFromWhereItIs(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ours.yaml"), []byte(ours), 0o644); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	s, err := b.stores().Open(t.Context(), "memory://channels")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "ours.yaml", []byte(ours), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"file://" + dir + "/ours.yaml", dir + "/ours.yaml", server.URL + "/ours.yaml", "memory://channels/ours.yaml"} {
		c, err := b.NewCluster(t.Context(), request(url))
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if got := c.Spec.Spec.KubernetesVersion; got != "1.35.4" {
			t.Errorf("%s: Kubernetes %s", url, got)
		}
		if got := c.Groups[0].Spec.Image; got != "ours" {
			t.Errorf("%s: image %s", url, got)
		}
		if got := c.Spec.Spec.Channel; got != url {
			t.Errorf("the spec has the channel %s, want %s", got, url)
		}
	}
}

func TestAChannelThatCannotBeRead(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "broken.yaml"), []byte("kind: Cluster"), 0o644); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	for url, want := range map[string]string{
		"file://" + dir + "/none.yaml":   "no such file or directory; use stable, alpha or the URL",
		server.URL + "/none.yaml":        "404 Not Found; use stable, alpha or the URL",
		"file://" + dir + "/broken.yaml": `the kind is "Cluster", not Channel`,
	} {
		_, err := b.NewCluster(t.Context(), request(url))
		expectTexts(t, err, "channel "+url, want)
	}
	// An existing cluster is updated without its channel, with a warning.
	b.describe(func(*newcluster.Options) {})
	b.set("", "spec.channel="+server.URL+"/none.yaml")
	u := b.preview(kops.UpdateOptions{})
	found := false
	for _, w := range u.Warnings {
		found = found || w.Path == "spec.channel" && w.Warning
	}
	if !found {
		t.Errorf("no warning of the channel in %v", u.Warnings)
	}
}

func TestAChannelRequiresAVersion(t *testing.T) {
	b := newBench(t)
	path := filepath.Join(t.TempDir(), "ours.yaml")
	if err := os.WriteFile(path, []byte(ours), 0o644); err != nil {
		t.Fatal(err)
	}
	b.describe(func(o *newcluster.Options) { o.Channel = path })
	b.set("", "spec.kubernetesVersion=1.34.1")
	_, err := b.Update(t.Context(), name, kops.UpdateOptions{})
	expectRefusal(t, err, "1.34.1", "KOPS_RUN_OBSOLETE_VERSION")
	old := b.client(func(c *kops.Config) { c.RunObsolete = true })
	if _, err := old.Update(t.Context(), name, kops.UpdateOptions{}); err != nil {
		t.Errorf("with RunObsolete: %v", err)
	}
}
