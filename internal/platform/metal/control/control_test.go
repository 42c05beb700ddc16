package control

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/store"
)

func nodes(names ...string) []*corev1.Node {
	var out []*corev1.Node
	for _, n := range names {
		node := &corev1.Node{}
		node.Name = n
		out = append(out, node)
	}
	return out
}

func TestTheRegistryOfHosts(t *testing.T) {
	s := store.NewFolder(t.TempDir())
	put := func(name string) {
		t.Helper()
		if _, err := s.Put(t.Context(), layout.MachineKey(name), []byte(`{"node": "`+name+`", "instanceGroup": "nodes"}`), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	known := controller.Stored{Base: s}
	machines := newRoster(known, "cp1")
	put("node1")
	if gone, err := machines.ListTerminated(t.Context(), nodes("node1", "node2")); err == nil {
		t.Errorf("a registry without this host is believed: %v", gone)
	}
	put("cp1")
	if gone, err := machines.ListTerminated(t.Context(), nodes("node1", "node2", "cp1")); err != nil || !slices.Equal(gone, []string{"node2"}) {
		t.Errorf("gone are %v, %v", gone, err)
	}
	if alive, err := machines.ListExisting(t.Context(), []string{"node1", "node2"}); err != nil || !slices.Equal(alive, []string{"node1"}) {
		t.Errorf("alive are %v, %v", alive, err)
	}
	if group, err := known.GroupOf(t.Context(), nodes("node1")[0]); err != nil || group != "nodes" {
		t.Errorf("the group is %q, %v", group, err)
	}
	if _, err := known.GroupOf(t.Context(), nodes("node2")[0]); !fault.Is(err, fault.Gone) {
		t.Errorf("a stranger has a group: %v", err)
	}
}
