package shell

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// What is told to run goes on with what was begun, in the same place and by the same means.
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
		app := &App{System: System{Err: &errs, Env: func(string) string { return "" }}, Command: line}
		root := &cobra.Command{Use: "kops", PersistentPreRun: func(c *cobra.Command, _ []string) { app.Running = c }}
		root.PersistentFlags().StringVar(&app.State, "state", "", "")
		root.PersistentFlags().StringVar(&app.Config, "config", "", "")
		for _, verb := range []string{"create", "update", "delete"} {
			parent := &cobra.Command{Use: verb}
			c := &cobra.Command{Use: "cluster", Run: func(*cobra.Command, []string) {
				app.hold("c")
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
