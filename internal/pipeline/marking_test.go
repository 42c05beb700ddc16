package pipeline

import (
	"slices"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/layout"
)

// TestAddonsThatMarkMachines: only an existing add-on that needs a rolling update, and whose objects change
// in more than what is re-read, marks machines.
func TestAddonsThatMarkMachines(t *testing.T) {
	configMap := func(live, data string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  annotations: {" + live + "}\ndata: {" + data + "}\n"
	}
	const live = labels.LiveKeys + ": debug"
	for _, c := range []struct {
		name, roll, was, now string
		want                 string // the groups that are marked
	}{
		{"another value", labels.RollAll, configMap("", "a: b"), configMap("", "a: c"), "control-plane nodes api-servers"},
		{"the control plane's", labels.RollControlPlane, configMap("", "a: b"), configMap("", "a: c"), "control-plane"},
		{"the workers'", labels.RollWorkers, configMap("", "a: b"), configMap("", "a: c"), "nodes"},
		{"an add-on that needs no machines", "", configMap("", "a: b"), configMap("", "a: c"), ""},
		{"only the text", labels.RollAll, configMap("", "a: b"), "# A comment.\n" + configMap("", "a: b"), ""},
		{"what is re-read", labels.RollAll, configMap(live, `debug: "0"`), configMap(live, `debug: "1"`), ""},
		{"what is re-read, and more", labels.RollAll, configMap(live, `debug: "0"`), configMap(live, `debug: "1", a: b`), "control-plane nodes api-servers"},
		{"no change", labels.RollAll, "", configMap("", "a: b"), ""},
	} {
		channel := "spec:\n  addons:\n  - {name: x.example.com, manifest: x.example.com/1.yaml, needsRollingUpdate: " + c.roll + "}\n"
		key := layout.Addons + "x.example.com/1.yaml"
		was := map[string][]byte{}
		if c.was != "" {
			was[key] = []byte(c.was)
		}
		got, err := (&Planned{}).markingAddons(t.Context(), map[string][]byte{layout.Channel: []byte(channel), key: []byte(c.now)}, was)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var marked []string
		for name, role := range map[string]api.InstanceGroupRole{"control-plane": api.RoleControlPlane, "nodes": api.RoleNode, "api-servers": api.RoleAPIServer, "bastions": api.RoleBastion} {
			g := &api.InstanceGroup{Spec: api.InstanceGroupSpec{Role: role}}
			if of := got.of(g); slices.Contains(of, "x.example.com") {
				marked = append(marked, name)
			}
		}
		want := strings.Fields(c.want)
		slices.Sort(marked)
		slices.Sort(want)
		if !slices.Equal(marked, want) {
			t.Errorf("%s: machines of %v are marked, not of %v", c.name, marked, want)
		}
	}
}
