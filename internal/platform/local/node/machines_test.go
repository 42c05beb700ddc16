package node

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/node/etcd"
)

// registry is a folder of machines.
type registry struct {
	*testing.T
	Machines
}

func newRegistry(t *testing.T) registry {
	return registry{t, Machines{Dir: filepath.Join(t.TempDir(), "machines"), Port: "3996"}}
}

func (r registry) write(name, text string) {
	r.Helper()
	err := os.MkdirAll(r.Dir, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(r.Dir, name), []byte(text), 0o600)
	}
	if err != nil {
		r.Fatal(err)
	}
}

func (r registry) add(name, address, role string) {
	r.write(name+".json", `{"name": "`+name+`", "group": "g", "address": "`+address+`", "publicKey": "PEM", "labels": {"role": "`+role+`"}}`)
}

func TestManagersAreOnTheMachinesOfTheControlPlane(t *testing.T) {
	r := newRegistry(t)
	if got, err := r.Discover(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("without a folder: %q, %v", got, err)
	}
	r.add("control-plane-b", "10.77.0.12", "control-plane")
	r.add("control-plane-a", "10.77.0.11", "control-plane")
	r.add("control-plane-c", "fd00::c", "control-plane")
	r.add("nodes-a", "10.77.0.21", "node")
	r.add("unborn", "", "control-plane")
	r.write(".control-plane-d.json.new", `{"address": "10.77.0.13", "labels": {"role": "control-plane"}}`)
	r.write("README", "machines")
	want := []string{"10.77.0.11:3996", "10.77.0.12:3996", "[fd00::c]:3996"}
	if got, err := endpoints(r.Discover(t.Context())); err != nil || !slices.Equal(got, want) {
		t.Errorf("found %q, %v", got, err)
	}
	r.write("broken.json", `{"address": 7`)
	if got, err := endpoints(r.Discover(t.Context())); err == nil || !strings.Contains(err.Error(), "broken.json") || !slices.Equal(got, want) {
		t.Errorf("with a broken file: %q, %v", got, err)
	}
}

func TestAChangeOfTheRegistryIsNoticed(t *testing.T) {
	r := newRegistry(t)
	r.add("control-plane-a", "10.77.0.11", "control-plane")
	changed := make(chan struct{}, 100)
	go r.Watch(t.Context(), time.Millisecond, func() { changed <- struct{}{} })
	await := func(what string) {
		t.Helper()
		select {
		case <-changed:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s was not noticed", what)
		}
	}
	time.Sleep(20 * time.Millisecond) // time for a few polls of what does not change
	r.add("nodes-a", "10.77.0.21", "node")
	time.Sleep(20 * time.Millisecond)
	if len(changed) > 0 {
		t.Error("something was noticed, but no machine of the control plane has changed")
	}
	r.add("control-plane-a-x2", "10.77.0.14", "control-plane")
	await("a new machine")
	r.add("control-plane-a-x2", "10.77.0.15", "control-plane")
	await("its new address")
	if err := os.Remove(filepath.Join(r.Dir, "control-plane-a.json")); err != nil {
		t.Fatal(err)
	}
	await("a machine that is gone")
}

// endpoints returns the endpoints of all sightings.
func endpoints(all []etcd.Sighting, err error) ([]string, error) {
	var out []string
	for _, s := range all {
		out = append(out, s.Endpoint)
	}
	return out, err
}
