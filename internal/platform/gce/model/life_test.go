package model

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/emulator"
	"kops.local/kops/internal/platform/gce/emulator/emulatortest"
	"kops.local/kops/internal/platform/gce/kinds"
	"kops.local/kops/internal/test/enginetest"
	"kops.local/kops/internal/test/modeltest"
)

// newAccount returns the engine on an emulated Google Cloud.
func newAccount(t *testing.T) *enginetest.Engine {
	cloud := emulatortest.Start(t, emulator.Options{DNSZones: []emulator.DNSZone{{Name: "example", DNSName: "example.com."}},
		Buckets: []emulator.Bucket{{Name: "state"}, {Name: "keys"}, {Name: "backups"}}})
	c := kinds.NewClient(*cloud.Clients())
	c.Buckets = []string{"state", "keys", "backups"}
	return &enginetest.Engine{TB: t, Client: func() any { return c }, Snapshot: func() any { return c.Snapshot() }, Kinds: kinds.All(), Clock: cloud.ForEngine()}
}

// TestClustersAreMadeKeptAndDeleted creates the cluster of each transcript, checks that it needs no
// further changes, and deletes it.
func TestClustersAreMadeKeptAndDeleted(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		if strings.HasPrefix(name, "refused") || name == "shared" || name == "long_names" {
			continue // networks of another project are not emulated, and the label of a long name is too long
		}
		t.Run(name, func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in := read(t, aCluster().Documents(t, modeltest.Sections(archive)))
			in.Facts.Of("gce").DNSZones[0].ID = "example"
			g := &graph.Graph{}
			if err := Build(in, g); err != nil {
				t.Fatal(err)
			}
			a := newAccount(t)
			if id := in.Cluster.Spec.Networking.NetworkID; id != "" {
				others := &graph.Graph{}
				if err := others.Add(kinds.Networks.New(id, kinds.Network{Name: id})); err != nil {
					t.Fatal(err)
				}
				a.Apply("others.example.com", others, false)
			}
			cluster := in.Cluster.Name
			a.Apply(cluster, g, false)
			if c := enginetest.Changes(a.Plan(cluster, g, false)); len(c) > 0 {
				t.Errorf("made, and yet to be changed: %s", strings.Join(c, ", "))
			}
			shared := g.Select(func(n resource.Node) bool { return n.Adopt != "" })
			a.Apply(cluster, shared, true)
			if c := enginetest.Changes(a.Plan(cluster, shared, true)); len(c) > 0 {
				t.Errorf("deleted, and yet there: %s", strings.Join(c, ", "))
			}
		})
	}
}
