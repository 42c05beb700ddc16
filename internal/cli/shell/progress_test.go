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

// A plan may be written to a file while a terminal shows the rest.
func TestAPlanIsColouredOnATerminal(t *testing.T) {
	for _, color := range []bool{true, false} {
		app := &App{System: System{Terminal: true, Color: color}}
		if got := app.PlanOptions().Color; got != color {
			t.Errorf("on a terminal %v: coloured %v", color, got)
		}
	}
}
