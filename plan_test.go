package kops_test

import (
	"encoding/json"
	"testing"

	"kops.local/kops"
	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/plan"
)

func TestTheLibrarysWordsAreTheEngines(t *testing.T) {
	for got, want := range map[kops.Op]plan.Op{kops.OpKeep: plan.Keep, kops.OpCreate: plan.Create, kops.OpModify: plan.Update, kops.OpDelete: plan.Delete} {
		if string(got) != string(want) {
			t.Errorf("%s is %s", want, got)
		}
	}
	for got, want := range map[kops.StepState]exec.State{
		kops.StepStarted: exec.Started, kops.StepRetrying: exec.Retrying, kops.StepDone: exec.Done, kops.StepFailed: exec.Failed,
		kops.StepSkipped: exec.Skipped, kops.StepDenied: exec.Denied,
	} {
		if string(got) != string(want) {
			t.Errorf("%s is %s", want, got)
		}
	}
	for got, want := range map[kops.Class]fault.Class{
		kops.Permanent: fault.Permanent, kops.Denied: fault.Denied, kops.Quota: fault.Quota, kops.Throttled: fault.Throttled,
		kops.NotYet: fault.NotYet, kops.Conflict: fault.Conflict, kops.Taken: fault.Taken, kops.Gone: fault.Gone, kops.Lost: fault.Lost,
	} {
		if string(got) != string(want) {
			t.Errorf("%s is %s", want, got)
		}
	}
}

// The public form of a plan has the content of the plan, and its JSON is the engine's.
func TestAPlanShowsWhatItHolds(t *testing.T) {
	b := newAppliedBench(t)
	b.set("nodes-here", "spec.minSize=3", "spec.maxSize=3")
	p := b.preview(kops.UpdateOptions{}).Plan
	made := inside[*plan.Plan](p)
	if len(p.Steps) != len(made.Steps) || p.Count() != kops.PlanCount(made.Summary()) || p.Count().Modify == 0 {
		t.Errorf("%d steps of %d, %+v", len(p.Steps), len(made.Steps), p.Count())
	}
	var changed []kops.FieldChange
	for _, s := range p.Steps {
		if s.Kind == "fake_machines" {
			changed = append(changed, s.Changes...)
		}
	}
	if len(changed) != 1 || changed[0] != (kops.FieldChange{Path: "Count", Have: "2", Want: "3"}) {
		t.Errorf("changes %+v", changed)
	}
	shown, err1 := json.Marshal(p)
	held, err2 := json.Marshal(made)
	if err1 != nil || err2 != nil || string(shown) != string(held) {
		t.Errorf("as JSON (%v, %v):\n%s\nnot\n%s", err1, err2, shown, held)
	}
}
