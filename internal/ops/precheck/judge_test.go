package precheck_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"kops.local/kops/finding"
	"kops.local/kops/internal/ops/precheck"
)

// text returns findings as lines: their check, whether they stop the upgrade, and the message.
func text(l finding.List) []string {
	var out []string
	for _, f := range l {
		how := "stops"
		if f.Warning {
			how = "warns"
		}
		out = append(out, f.Rule+" "+how+" "+f.String())
	}
	return out
}

func TestFindingsOfThePlatformAndTheStore(t *testing.T) {
	in := target("1.36.3")
	in.Rollout = "a roll that jane began is not ended"
	in.Room = []precheck.Shortage{{Group: "nodes", Message: "subnet a has 2 free addresses", Remedy: "widen it"}, {Group: "more", Message: "the account may have no further machine", Remedy: "ask for more", None: true}}
	want := []string{
		"room stops InstanceGroup/more: the account may have no further machine; ask for more",
		"room warns InstanceGroup/nodes: subnet a has 2 free addresses; widen it",
		"rollout warns a roll that jane began is not ended; finish it first: kops rolling-update cluster --yes",
	}
	if got := text(precheck.Judge(in, precheck.Observation{})); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	in.Skip = []string{precheck.Room, precheck.Rollout}
	if got := text(precheck.Judge(in, precheck.Observation{})); len(got) > 0 {
		t.Errorf("skipped, and %q", got)
	}
}

func TestUnobservableInputIsAWarning(t *testing.T) {
	s := precheck.Observation{Failed: map[string]error{precheck.Budgets: errors.New("forbidden")}}
	got := text(precheck.Judge(target("1.36.3"), s))
	if len(got) != 1 || !strings.HasPrefix(got[0], "disruption-budgets warns could not be checked: forbidden") {
		t.Errorf("%q", got)
	}
}

func TestNamesOfChecks(t *testing.T) {
	if err := precheck.CheckSkipped(precheck.Names()); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{"webhook": `there is no check "webhook"; did you mean webhooks?`, "x": `there is no check "x"; use api, removed-apis`} {
		if err := precheck.CheckSkipped([]string{name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
