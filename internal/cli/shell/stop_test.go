package shell

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// The suggested command continues the interrupted one, in the same place and by the same means.
func TestWhatGoesOnFromACommandThatQuit(t *testing.T) {
	const updated = "kops update cluster c --yes"
	for line, want := range map[string]string{
		"kops delete cluster c --yes":                            "kops delete cluster c --yes",
		"kops update cluster c --yes --state s3://b":             "kops update cluster c --yes --state s3://b",
		"kops create cluster c --yes":                            updated,
		"kops create cluster c --yes --state s3://b":             updated + " --state s3://b",
		"kops create cluster c --cloud local --yes":              updated + " --admin",
		"kops create cluster c --cloud aws --yes":                updated,
		"kops create cluster c --config f":                       updated + " --config f",
		"kops create cluster c --target direct --yes":            updated,
		"kops create cluster c --target terraform --out tf":      updated + " --target terraform --out tf",
		"kops create cluster c --target=terraform --state file:": updated + " --state file: --target terraform",
	} {
		var errs bytes.Buffer
		app := New(System{Err: &errs, Env: func(string) string { return "" }})
		app.Command = line
		root := &cobra.Command{Use: "kops", PersistentPreRun: func(c *cobra.Command, _ []string) { app.Running = c }}
		root.PersistentFlags().StringVar(&app.State, "state", "", "")
		root.PersistentFlags().StringVar(&app.Config, "config", "", "")
		for _, verb := range []string{"create", "update", "delete"} {
			parent := &cobra.Command{Use: verb}
			c := &cobra.Command{Use: "cluster", Run: func(*cobra.Command, []string) {
				app.setLease("c")
				app.Quit()
			}}
			c.Flags().Bool("yes", false, "")
			c.Flags().String("target", "direct", "")
			c.Flags().String("out", "", "")
			c.Flags().String("cloud", "", "")
			parent.AddCommand(c)
			root.AddCommand(parent)
		}
		root.SetArgs(strings.Fields(line)[1:])
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		if _, told, _ := strings.Cut(errs.String(), "run: "); told != want+"\n" {
			t.Errorf("%s: told was %q", line, errs.String())
		}
	}
}

// Every write to a terminal clears the progress line, so reporting a stop must not hold the lock
// that this requires.
func TestAStopIsShownOnATerminal(t *testing.T) {
	for what, display := range map[string]func(*App){
		"nothing is shown":     func(*App) {},
		"a phase is shown":     func(a *App) { a.Phase("observe") },
		"a display is redrawn": func(a *App) { _, stop := a.Waiting(); t.Cleanup(stop) },
	} {
		var errs bytes.Buffer
		app := New(System{Terminal: true, Out: &errs, Err: &errs, Now: time.Now, Width: 80})
		display(app)
		app.setLease("c")
		told := make(chan struct{})
		go func() {
			app.Stopping()
			close(told)
		}()
		select {
		case <-told:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: it is never told", what)
		}
		if !strings.Contains(errs.String(), "stopping: ") {
			t.Errorf("%s: told was %q", what, errs.String())
		}
	}
}
