package gce

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/platform/gce/emulator"
	gcespec "kops.local/kops/internal/platform/gce/spec"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/gs"
	"kops.local/kops/internal/store/gs/gstest"
	"kops.local/kops/internal/test/clitest"
	"kops.local/kops/internal/test/proxy"
)

const (
	bucket  = "state-store"
	project = "testproject"
	host    = "hostproject" // shares networks
	region  = "us-test1"
	name    = "a.example.com"
)

// world is a project at an emulator, a proxy in front of it, and a user.
type world struct {
	*clitest.Proxied
	cloud   *emulator.Emulator
	server  string // the emulator, without the proxy
	objects *gstest.Server
}

// newWorld creates a project with a state store.
func newWorld(t testing.TB, with ...func(*emulator.Options)) *world {
	w := &world{Proxied: &clitest.Proxied{User: clitest.NewUser(t, gcespec.Platform()), Cluster: name}, objects: gstest.Start(t)}
	w.objects.Bucket(t, bucket)
	o := emulator.Options{Project: project, Buckets: []emulator.Bucket{{Name: bucket}}, Objects: w.objects, Latency: 20 * time.Millisecond, Boot: 50 * time.Millisecond,
		DNSZones: []emulator.DNSZone{{Name: "example", DNSName: "example.com."}}, LateInUse: true,
		Others: []string{"ubuntu-os-cloud", host}, Images: []emulator.Image{{Project: "ubuntu-os-cloud", Name: "ubuntu-2404-noble-amd64-v20260615", Family: "ubuntu-2404-lts-amd64"}},
		OnBug: func(err error) { t.Errorf("the emulator: %v", err) }}
	for _, f := range with {
		f(&o)
	}
	var err error
	w.cloud, err = emulator.New(o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(w.cloud)
	t.Cleanup(server.Close)
	w.server = server.URL
	w.Proxy = proxy.New(t, server.URL, dialect)
	maps.Copy(w.Env, map[string]string{"KOPS_STATE_STORE": "gs://" + bucket, "KOPS_GCE_ENDPOINT": w.Proxy.URL, "STORAGE_EMULATOR_HOST": w.Proxy.URL})
	return w
}

// small describes a cluster of one control plane and one group of nodes.
func (w *world) small(args ...string) {
	w.Helper()
	w.Must(append([]string{"create", "cluster", "--cloud", "gce", "--project", project, "--zones", region + "-a", "--networking", "calico", "--ssh-public-key", w.Key(), name}, args...)...)
}

// large describes a private cluster of three control planes, a bastion and 63 groups of nodes.
func (w *world) large() {
	w.Helper()
	w.Must("create", "cluster", "--cloud", "gce", "--project", project, "--zones", region+"-a,"+region+"-b,"+region+"-c", "--control-plane-count", "3",
		"--topology", "private", "--bastion", "--networking", "calico", "--ssh-public-key", w.Key(), name)
	var docs []string
	for i := range 60 {
		docs = append(docs, fmt.Sprintf(`apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata:
  name: nodes-%02d
  labels:
    kops.k8s.io/cluster: %s
spec:
  image: ubuntu-os-cloud/ubuntu-2404-noble-amd64-v20260615
  machineType: e2-medium
  minSize: 1
  maxSize: 1
  role: Node
  subnets:
  - %s
  zones:
  - %s-%c
`, i, name, region, region, 'a'+rune(i%3)))
	}
	w.Must("create", "-f", w.File("groups.yaml", strings.Join(docs, "---\n")))
}

// inventory lists all objects in the project and in the store.
func (w *world) inventory() []string {
	w.Helper()
	out := w.cloud.Inventory()
	s, err := store.Backends{gs.Backend(gs.Config{Endpoint: w.objects.URL})}.Open(w.Context(), "gs://"+bucket)
	if err != nil {
		w.Fatal(err)
	}
	for i, err := range s.List(w.Context(), "") {
		if err != nil {
			w.Fatal(err)
		}
		out = append(out, "object "+i.Key)
	}
	return out
}

// checkUnchanged checks that a preview has no changes.
func (w *world) checkUnchanged() {
	w.Helper()
	if r := w.Must("update", "cluster", name); !strings.Contains(r.Out, "No changes need to be applied") {
		w.Errorf("a preview has changes:\n%s", r.Out)
	}
}

// checkNothingLeft checks that a deleted cluster leaves only what existed before.
func (w *world) checkNothingLeft(before []string) {
	w.Helper()
	if left := clitest.Difference(w.inventory(), before); len(left) > 0 {
		w.Errorf("a deleted cluster leaves\n%s", strings.Join(left, "\n"))
	}
	if lost := clitest.Difference(before, w.inventory()); len(lost) > 0 {
		w.Errorf("a deleted cluster takes with it\n%s", strings.Join(lost, "\n"))
	}
}
