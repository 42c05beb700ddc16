package update

import (
	"fmt"
	"strings"

	"kops.local/kops"
	"kops.local/kops/api/status"
	"kops.local/kops/internal/cli/shell"
)

// maxReasons is the maximum number of fields in a line.
const maxReasons = 3

// printAftermath prints what running machines need after an update, and which command does it.
func printAftermath(app *shell.App, name string, a *kops.Aftermath) error {
	switch {
	case a == nil:
		return nil
	case a.Unknown != "":
		app.Notef("\nwarning: the effect on machines is unknown: %s\n", a.Unknown)
		return nil
	}
	var rows [][]string
	idle := 0
	for _, g := range a.Groups {
		if g.Effect == status.NoEffect {
			idle++
			continue
		}
		rows = append(rows, []string{g.Group, string(g.Effect), fmt.Sprintf("%d of %d", g.Machines, g.Count), shell.Listed(g.Reasons, maxReasons)})
	}
	app.Printf("\nRunning machines\n")
	if len(rows) > 0 {
		if err := app.PrintTable([]string{"GROUP", "EFFECT", "MACHINES", "WHY"}, rows); err != nil {
			return err
		}
	}
	if idle > 0 {
		app.Printf("No changes for machines in %s.\n", countText(idle, "group", len(rows) > 0))
	}
	if todo := workText(a); todo != "" {
		app.Printf("%s in about %d min (%v for each replacement, %v for each restart, within the limits of rollingUpdate):\n  kops rolling-update cluster %s --yes\n",
			todo, a.Minutes, minutes(status.ReplaceTime.Minutes()), minutes(status.RestartTime.Minutes()), name)
	}
	return nil
}

// minutes formats a number of minutes.
func minutes(m float64) string { return fmt.Sprintf("%g min", m) }

// workText says how many machines must be restarted and replaced.
func workText(a *kops.Aftermath) string {
	var parts []string
	if a.Restarts > 0 {
		parts = append(parts, countText(a.Restarts, "machine", false)+" to restart in place")
	}
	if a.Replaces > 0 {
		parts = append(parts, countText(a.Replaces, "machine", false)+" to replace")
	}
	return strings.Join(parts, " and ")
}

func countText(n int, what string, others bool) string {
	if others {
		what = "other " + what
	}
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
