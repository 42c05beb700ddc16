package shell

import "testing"

func TestADisplayIsRedrawnWhereNothingElseIsWritten(t *testing.T) {
	for verbosity, want := range map[int]bool{0: true, 1: false, requests: false} {
		app := &App{System: System{Terminal: true}, Verbosity: verbosity}
		if got := app.live(); got != want {
			t.Errorf("-v %d: %v", verbosity, got)
		}
	}
}
