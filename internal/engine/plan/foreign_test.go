package plan_test

import (
	"strings"
	"testing"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/render/text"
	"kops.local/kops/internal/engine/resource"
)

type door struct {
	Name   string
	Theirs bool `res:"out"`
}

// TestForeignObjectsAreReportedAndKept checks plans with and without pruning.
func TestForeignObjectsAreReportedAndKept(t *testing.T) {
	doors := resource.Kind[door, any]{Name: "door", Key: func(d *door) string { return d.Name }, Foreign: func(d *door) bool { return d.Theirs }}
	have := plan.Snapshot{"door": {{Key: "z", Got: &door{"z", true}}, {Key: "b", Got: &door{"b", false}}, {Key: "a", Got: &door{"a", true}}}}
	for _, prune := range []bool{false, true} {
		p, err := plan.Make(&graph.Graph{}, have, []resource.Any{doors.Erase()}, plan.Options{Prune: prune})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Foreign) != 2 || p.Foreign[0].Key != "a" || len(p.Steps)+len(p.Deferred) != 1 || len(have["door"]) != 3 {
			t.Errorf("prune %v: %+v", prune, p)
		}
		var b strings.Builder
		if err := text.Plan(&b, p, text.Options{}); err != nil || !strings.Contains(b.String(), "Created by others with the cluster's tags, and kept:\n") || !strings.Contains(b.String(), "door/a") {
			t.Errorf("prune %v: %q, %v", prune, b.String(), err)
		}
	}
}
