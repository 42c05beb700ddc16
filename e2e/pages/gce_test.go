package pages

import (
	"context"
	"maps"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"kops.local/kops/internal/platform/gce/emulator"
	gcespec "kops.local/kops/internal/platform/gce/spec"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/gs"
	"kops.local/kops/internal/store/gs/gstest"
	"kops.local/kops/internal/test/clitest"
)

// gcePage is the page whose commands need Google's cloud.
const gcePage = "docs/gce.md"

// newGoogleReader creates a reader with a project at an emulator of Google's cloud.
func newGoogleReader(t *testing.T, kops string, admin *rest.Config) *reader {
	t.Helper()
	objects, machines := gstest.Start(t), &startedMachines{}
	objects.Bucket(t, "my-clusters")
	cloud, err := emulator.New(emulator.Options{
		Project: "my-project", Regions: map[string][]string{"europe-west1": {"europe-west1-b", "europe-west1-c", "europe-west1-d"}}, Others: []string{"ubuntu-os-cloud"},
		Images:  []emulator.Image{{Project: "ubuntu-os-cloud", Name: "ubuntu-2404-noble-amd64-v20260615", Family: "ubuntu-2404-lts-amd64"}},
		Buckets: []emulator.Bucket{{Name: "my-clusters"}}, Objects: objects, Machines: machines,
		OnBug: func(err error) { t.Errorf("the emulator: %v", err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(cloud)
	t.Cleanup(server.Close)
	state, err := store.Backends{gs.Backend(gs.Config{Endpoint: objects.URL})}.Open(t.Context(), "gs://my-clusters")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{TB: t, name: "demo.k8s.local", state: state, machines: machines.list, admin: admin}
	i := newInternet(t, c.serve())
	r := &reader{User: clitest.NewUser(t, gcespec.Platform())}
	maps.Copy(r.Env, map[string]string{
		"PATH": programs(t, kops, "") + ":" + os.Getenv("PATH"), "KOPS_GCE_ENDPOINT": server.URL, "STORAGE_EMULATOR_HOST": server.URL,
		"HTTPS_PROXY": i.url, "SSL_CERT_FILE": i.authority,
	})
	return r
}

// startedMachines records the instances that the emulator has started. It implements emulator.Machines.
type startedMachines struct {
	mu  sync.Mutex
	all map[string]machine
}

func (s *startedMachines) list(context.Context) ([]machine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.all)), nil
}

// Start implements emulator.Machines.
func (s *startedMachines) Start(_ context.Context, i emulator.Instance) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]machine{}
	}
	s.all[i.Name] = machine{name: i.Name, provider: "gce://" + i.Project + "/" + i.Zone + "/" + i.Name,
		controlPlane: slices.ContainsFunc(i.Tags, func(tag string) bool { return strings.HasSuffix(tag, "-k8s-io-role-control-plane") })}
	return nil
}

// Stop implements emulator.Machines.
func (s *startedMachines) Stop(_ context.Context, i emulator.Instance) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, i.Name)
	return nil
}

// Delete implements emulator.Machines.
func (s *startedMachines) Delete(ctx context.Context, i emulator.Instance) error {
	return s.Stop(ctx, i)
}

// Plug implements emulator.Machines.
func (s *startedMachines) Plug(context.Context, emulator.Instance) error { return nil }

// Console implements emulator.Machines.
func (s *startedMachines) Console(i emulator.Instance) ([]byte, error) {
	return []byte(i.Name + " login: "), nil
}
