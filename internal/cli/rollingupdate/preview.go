package rollingupdate

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"kops.local/kops"
	"kops.local/kops/api/status"
	"kops.local/kops/internal/cli/shell"
)

// Preview shows what a rollout would do.
func Preview(ctx context.Context, app *shell.App, client *kops.Client, name, format string, o kops.RolloutOptions) error {
	o.On = app.On(nil)
	p, err := client.PlanRollout(ctx, name, o)
	if err != nil {
		return err
	}
	spell(p)
	return app.PrintAs(format, p, func() error { return printPlan(app, p) })
}

// spell replaces options in texts with flags.
func spell(p *kops.RolloutPlan) {
	for i := range p.Blockers {
		p.Blockers[i].Remedy = shell.Spell(p.Blockers[i].Remedy)
	}
	shell.SpellFailures(p.Baseline)
}

func printPlan(app *shell.App, p *kops.RolloutPlan) error {
	var rows [][]string
	for _, g := range p.Groups {
		rows = append(rows, []string{g.Name, g.Status, strconv.Itoa(g.NeedUpdate), strconv.Itoa(g.Ready), strconv.Itoa(g.Min), strconv.Itoa(g.Target), strconv.Itoa(g.Max), strconv.Itoa(g.Nodes)})
	}
	if err := app.PrintTable([]string{"NAME", "STATUS", "NEEDUPDATE", "READY", "MIN", "TARGET", "MAX", "NODES"}, rows); err != nil {
		return err
	}
	if u := p.Unfinished; u != nil {
		app.Printf("\n%s\n", unfinishedLine(u))
		return nil
	}
	if p.Machines() == 0 {
		app.Printf("\nNo rolling-update required.\n")
		return nil
	}
	if err := machines(app, p); err != nil {
		return err
	}
	Obstacles(app, p)
	app.Printf("\n%s\n\nMust specify --yes to rolling-update.\n", order(p))
	return nil
}

func unfinishedLine(u *status.Rollout) string {
	done, all := u.Done()
	text := fmt.Sprintf("The rollout that began at %s is not finished: %d of %d machines are done", u.Began.Format(time.RFC3339), done, all)
	if u.Driver != "" {
		return text + "; " + u.Driver + ".\nTo watch it: kops rolling-update status --watch"
	}
	return text + ", and no process is driving it.\nMust specify --yes to continue it; to end it: kops rolling-update abort"
}

// maxMachines is the maximum number of machines of a group in a preview, and maxReasons the
// maximum number of reasons.
const maxMachines, maxReasons = 10, 5

// machines prints the machines, what is done to each, and why.
func machines(app *shell.App, p *kops.RolloutPlan) error {
	app.Printf("\n")
	rows := [][]string{{"GROUP", "MACHINE", "NODE", "WHAT", "WHY"}}
	for _, g := range p.Groups {
		for i, m := range g.Machines {
			if i == maxMachines {
				rows = append(rows, []string{g.Name, fmt.Sprintf("and %d more", len(g.Machines)-i), "", "", ""})
				break
			}
			why := cmp.Or(shell.Listed(m.Reasons, maxReasons), "as you asked")
			rows = append(rows, []string{g.Name, m.Name, m.Node, m.Effect, why})
		}
	}
	return app.PrintRows(rows)
}

// Obstacles prints what will block the rollout, and what is already wrong.
func Obstacles(app *shell.App, p *kops.RolloutPlan) {
	spell(p)
	tell := func(title string, blocks bool) {
		for _, b := range p.Blockers {
			if b.Blocks != blocks {
				continue
			}
			app.Printf("%s", title)
			title = ""
			where := strings.Join(b.Nodes, ", ")
			if len(b.Pods) > 0 {
				where = strings.Join(b.Pods, ", ") + " on " + where
			}
			app.Printf("  %s %s (%s): %s\n", b.Kind, b.Name, where, b.Message)
			if b.Remedy != "" {
				app.Printf("    %s\n", b.Remedy)
			}
		}
	}
	for i, s := range p.Shortages {
		if i == 0 {
			app.Printf("\nCapacity is missing for some machines:\n")
		}
		app.Printf("  %s: %s\n", s.Group, s.Message)
		if s.Remedy != "" {
			app.Printf("    %s\n", s.Remedy)
		}
	}
	tell("\nThese pods will block drains:\n", true)
	tell("\nNotes:\n", false)
	for i, f := range p.Baseline {
		if i == 0 {
			app.Printf("\nExisting problems, which do not stop the rollout:\n")
		}
		app.Printf("  %s\n", f.String())
	}
}

// order describes the order of a rollout, and about how long it takes.
func order(p *kops.RolloutPlan) string {
	var parts []string
	for _, g := range p.Groups {
		if len(g.Machines) == 0 {
			continue
		}
		text := fmt.Sprintf("%s (%d", g.Name, len(g.Machines))
		if g.Surge > 0 {
			text += fmt.Sprintf(", %d more at a time", g.Surge)
		}
		if g.Unavailable > 0 {
			text += fmt.Sprintf(", %d fewer at a time", g.Unavailable)
		}
		parts = append(parts, text+")")
	}
	return fmt.Sprintf("Order: %s. This takes about %s.", strings.Join(parts, ", "), shell.Minutes(p.About))
}
