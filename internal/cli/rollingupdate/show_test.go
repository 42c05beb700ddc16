package rollingupdate

import (
	"testing"

	"kops.local/kops/api/status"
)

func TestPhasesTellWhatIsWaitedFor(t *testing.T) {
	for want, m := range map[string]status.RolloutMachine{
		"terminated; its successor is made: no space is left on the disk": {Phase: "gone", Lacks: "no space is left on the disk"},
		"waits until b is ready: its start is at the image of pause":      {Phase: "joined", Successor: "b", Lacks: "its start is at the image of pause"},
		"its pods are moved; a drain fails":                               {Node: "a", Phase: "draining", Trouble: "a drain fails"},
		"is terminated":                                                   {Phase: "draining"}, // --cloudonly
	} {
		if got := phase(m); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
