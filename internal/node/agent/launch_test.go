package agent_test

import (
	"context"
	"errors"
	"testing"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/node/agent"
	"kops.local/kops/internal/node/agent/node"
	"kops.local/kops/internal/node/agent/report"
)

// The scaling group terminates machines that do not report that they have started.
func TestTheCloudIsNotifiedOfAStartedMachine(t *testing.T) {
	w := newWorld(t, "testdata/aws-worker.txtar")
	a, told := w.agent(), 0
	a.Launched = func(_ context.Context, _ *nodeconfig.Boot, h node.Host) error {
		told++
		if h.ScalingGroup != "nodes.c" {
			t.Errorf("told of %+v", h)
		}
		w.joiner.joined = true // by now the node is ready, and kops-controller has nothing more to give
		if told == 1 {
			return errors.New("throttled")
		}
		return nil
	}
	if err := a.Converge(context.Background(), w.boot); err != nil || told != 0 {
		t.Fatalf("told %d times of a machine that nobody waits for, %v", told, err)
	}
	w.host.ScalingGroup = "nodes.c"
	if err := a.Converge(context.Background(), w.boot); err == nil {
		t.Fatal("the failure is lost")
	}
	if r := w.lastReport(); r.Done || r.Broken() == nil || r.Broken().Name != agent.PhaseLaunch {
		t.Errorf("report\n%s", r.String())
	}
	a.Retries = 1
	told = 0
	w.joiner.joined = false
	if err := a.Converge(context.Background(), w.boot); err != nil || told != 2 {
		t.Errorf("told %d times, %v", told, err)
	}
	if p := w.lastReport().Phases; p[len(p)-1].Name != agent.PhaseLaunch || p[len(p)-1].State != report.Passed {
		t.Errorf("phases %+v", p)
	}
}
