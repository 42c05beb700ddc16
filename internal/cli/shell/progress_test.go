package shell

import (
	"bytes"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestADisplayIsRedrawnWhereNothingElseIsWritten(t *testing.T) {
	for verbosity, want := range map[int]bool{0: true, 1: false, requests: false} {
		var errs bytes.Buffer
		app := New(System{Terminal: true, Out: &errs, Err: &errs, Now: time.Now})
		app.Verbosity = verbosity
		if err := app.Start(&cobra.Command{}); err != nil {
			t.Fatal(err)
		}
		show, stop := app.Waiting()
		show.Tick()
		stop()
		if got := errs.Len() > 0; got != want {
			t.Errorf("-v %d: %q", verbosity, errs.String())
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
