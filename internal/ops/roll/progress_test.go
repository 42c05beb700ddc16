package roll

import (
	"testing"
	"time"

	"kops.local/kops/api"
)

// TestTheReasonForAMissingSuccessorIsReported checks that it is reported while a machine waits for
// its successor, and when the wait was too long.
func TestTheReasonForAMissingSuccessorIsReported(t *testing.T) {
	began := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	const full, starts = "no space is left on the disk", "its start is at the image of pause"
	boots := MachineView{Name: "b", Running: true, Note: starts}
	failed := []Result{{Action: Action{Do: Update, Group: "nodes"}, Trouble: full}}
	for name, c := range map[string]struct {
		view    GroupView
		results []Result
		phase   Phase
		lacks   string
		stopped string
	}{
		"the platform has trouble": {GroupView{Trouble: full}, nil, Gone, full, "no machine replaced a within 15m0s: " + full},
		"the update has trouble":   {GroupView{}, failed, Gone, full, "no machine replaced a within 15m0s: " + full},
		"nobody tells":             {GroupView{}, nil, Gone, "", "no machine replaced a within 15m0s"},
		"the successor starts":     {GroupView{Trouble: full, Machines: []MachineView{boots}}, nil, Joined, starts, "b, which replaces a, is not healthy after 15m0s: it has not joined the cluster: " + starts},
	} {
		c.view.Name, c.view.Target = "nodes", 1
		v := View{Now: began, API: true, Groups: []GroupView{{Name: "nodes", Target: 1, Machines: []MachineView{{Name: "a", Running: true, Node: "a", Ready: true}}}}}
		s := New("x", Defaults(), []Plan{{Name: "nodes", Role: api.RoleNode, Unavailable: 1, Machines: []Machine{{Name: "a", Node: "a", Effect: Replace}}}}, v)
		s.Groups[0].Machines[0].Phase, s.Groups[0].Machines[0].Drained = Draining, began
		v.Groups = []GroupView{c.view}
		s, _ = Step(s, v)
		v.Results = c.results
		s, _ = Step(s, v)
		if m := s.Groups[0].Machines[0]; m.Phase != c.phase || m.Lacks != c.lacks {
			t.Errorf("%s: the machine is %s and lacks %q, want %s and %q", name, m.Phase, m.Lacks, c.phase, c.lacks)
		}
		v.Results, v.Now = nil, began.Add(16*time.Minute)
		s, _ = Step(s, v)
		if stop := s.Groups[0].Stopped; stop == nil || stop.Why != c.stopped {
			t.Errorf("%s: the group is stopped: %+v, want %q", name, stop, c.stopped)
		}
	}
}
