package control

import (
	"os"
	"path/filepath"
	"testing"

	"kops.local/kops/internal/node/controller"
)

func TestTheHostIsAskedToReplaceAMachine(t *testing.T) {
	entries, requests := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"nodes-x.json": `{"name":"nodes-x","group":"nodes","address":"10.77.0.5"}`,
		"alone.json":   `{"name":"alone","address":"10.77.0.6"}`,
		"cp-y.json":    `{"name":"cp-y","group":"cp","address":"10.77.0.7","labels":{"role":"control-plane"}}`,
	} {
		if err := os.WriteFile(filepath.Join(entries, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := fleet{Registry{Folder: os.DirFS(entries), Self: "cp-y"}, requests}
	list, err := f.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, m := range list {
		found[m.Name] = m.Group
		if m.Created.IsZero() || m.Node != m.Name {
			t.Errorf("%+v", m)
		}
	}
	if len(found) != 2 || found["nodes-x"] != "nodes" || found["cp-y"] != "cp" {
		t.Errorf("the machines of groups are %v", found)
	}
	if err := f.Replace(t.Context(), controller.FleetMachine{Name: "nodes-x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(requests, "nodes-x")); err != nil {
		t.Error(err)
	}
}
