package rollingupdate

import (
	"strings"
	"testing"

	"kops.local/kops/api/status"
	"kops.local/kops/internal/cli/shell"
)

func TestPhasesNameWhatIsAwaited(t *testing.T) {
	for want, m := range map[string]status.RolloutMachine{
		"terminated; its replacement is being created: no space is left on the disk": {Phase: "gone", Lacks: "no space is left on the disk"},
		"waits until b is ready: its start is at the image of pause":                 {Phase: "joined", Successor: "b", Lacks: "its start is at the image of pause"},
		"its pods are being evicted; a drain fails":                                  {Node: "a", Phase: "draining", Trouble: "a drain fails"},
		"is terminated": {Phase: "draining"}, // --cloudonly
	} {
		if got := phase(m); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The end of the input counts as no.
func TestTheEndOfTheInputIsNo(t *testing.T) {
	for want, choices := range map[string][]string{"no": {"yes", "no", "always"}, "stop": {"wait", "force", "skip", "stop"}} {
		var told []string
		a := newPrompter(shell.New(shell.System{In: strings.NewReader("perhaps\n")}), func(line string) { told = append(told, line) })
		for range 2 { // the next question, too
			if got, err := a.ask(t.Context(), status.Question{Text: "Go on?", Choices: choices}); got != want || err != nil {
				t.Errorf("%v: %q, %v", choices, got, err)
			}
		}
		if last := told[len(told)-1]; !strings.Contains(last, "ended without an answer; assuming") {
			t.Errorf("told was %q", told)
		}
	}
}
