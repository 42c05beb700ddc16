package rollingupdate

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"kops.local/kops"
	"kops.local/kops/api/status"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/engine/render/text"
)

// ShowProgress shows the progress of a rollout.
func ShowProgress(show *text.Stages, r *kops.Rollout) {
	done, count := r.Done()
	head := fmt.Sprintf("%d of %d machines done", done, count)
	switch {
	case r.Aborted:
		head += ", ends"
	case r.Paused:
		head += ", paused"
	}
	var all, now []text.Reason
	for _, g := range r.Groups {
		for _, m := range g.Machines {
			if m.Phase == "pending" {
				continue
			}
			of := g.Name + " " + MachineName(m)
			all = append(all, text.Reason{Of: of, Text: phase(m)})
			if m.Phase != "done" && m.Phase != "kept" {
				now = append(now, text.Reason{Of: of, Text: strings.Join(slices.Concat([]string{phase(m)}, m.Blockers), "; ")})
			}
			for _, b := range m.Blockers {
				all = append(all, text.Reason{Of: of + " is kept by " + b, Text: "it waits for that"})
			}
		}
		switch {
		case g.Stopped != "":
			all = append(all, text.Reason{Of: g.Name + " stopped", Text: g.Stopped})
		case g.Waits != "":
			now = append(now, text.Reason{Of: g.Name, Text: "waits for " + g.Waits})
		}
	}
	show.Update(head, spellReasons(all), spellReasons(now))
}

// spellReasons replaces options in texts with flags.
func spellReasons(list []text.Reason) []text.Reason {
	for i := range list {
		list[i].Of, list[i].Text = shell.Spell(list[i].Of), shell.Spell(list[i].Text)
	}
	return list
}

// MachineName returns the name of a machine, and of its node if it differs.
func MachineName(m status.RolloutMachine) string {
	if m.Node == "" || m.Node == m.Name {
		return m.Name
	}
	return m.Name + " (" + m.Node + ")"
}

// phase describes the phase of a machine.
func phase(m status.RolloutMachine) string {
	successor := cmp.Or(m.Successor, "its replacement")
	words := map[string]string{
		"surged":     "detached; its replacement is being created, and it serves until then",
		"joined":     "waits until " + successor + " is ready",
		"soaking":    successor + " is ready, and must stay ready",
		"cordoned":   "is cordoned and leaves the load balancers",
		"draining":   "its pods are being evicted",
		"gone":       "terminated; its replacement is being created",
		"restarting": "restarts in place",
		"done":       "done",
		"kept":       "left unchanged",
	}
	if m.Effect == "restart" {
		words["soaking"], words["joined"] = "restarted; must stay ready", "waits until it is ready"
	}
	if m.Node == "" { // as with --cloudonly: there is no node to drain
		words["cordoned"], words["draining"] = "leaves the load balancers", "is terminated"
	}
	out := cmp.Or(words[m.Phase], m.Phase)
	if m.Lacks != "" {
		out += ": " + m.Lacks
	}
	if m.Trouble != "" && m.Phase != "done" {
		out += "; " + m.Trouble
	}
	return out
}

func continueHint(r *kops.Rollout) string {
	done, all := r.Done()
	return fmt.Sprintf("The rollout that began at %s is not finished: %d of %d machines are done. It continues with its original options.", r.Began.Format(time.RFC3339), done, all)
}

// printResult prints the result of a rollout.
func printResult(app *shell.App, r *kops.Rollout) error {
	done, all := r.Done()
	switch {
	case r.Ended.IsZero():
		app.Printf("%d of %d machines are done\n", done, all)
	case done == all:
		app.Printf("Rolling update completed: %d of %d machines, in %s\n", done, all, r.Ended.Sub(r.Began).Round(time.Second))
	case r.Aborted:
		app.Printf("Rolling update aborted: %d of %d machines were done in %s; the others are unchanged.\nTo roll them: kops rolling-update cluster --yes\n",
			done, all, r.Ended.Sub(r.Began).Round(time.Second))
	default:
		app.Printf("Rolling update ended: %d of %d machines were done in %s\n", done, all, r.Ended.Sub(r.Began).Round(time.Second))
	}
	return nil
}

// prompter asks questions one at a time. An answer may be abbreviated if it is unambiguous.
type prompter struct {
	app   *shell.App
	print func(string)
	mu    sync.Mutex
	lines chan string
}

func newPrompter(app *shell.App, print func(string)) *prompter {
	return &prompter{app: app, print: print}
}

func (a *prompter) ask(ctx context.Context, q status.Question) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lines == nil {
		a.lines = make(chan string)
		go a.read() // it is not waited for: only an answer ends the read
	}
	for {
		a.print(shell.Spell(q.Text) + " " + spellChoices(q.Choices))
		select {
		case line, open := <-a.lines:
			if !open {
				no := safeChoice(q.Choices)
				a.print(fmt.Sprintf("Standard input ended without an answer; assuming %q.", no))
				return no, nil
			}
			if choice := choose(line, q.Choices); choice != "" {
				return choice, nil
			}
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

func (a *prompter) read() {
	defer close(a.lines)
	for in := bufio.NewScanner(a.app.In); in.Scan(); {
		a.lines <- in.Text()
	}
}

// safeChoice returns the choice that is always safe: to stop.
func safeChoice(choices []string) string {
	if slices.Contains(choices, "no") {
		return "no"
	}
	return choices[len(choices)-1]
}

// spellChoices formats the choices; the first is the default.
func spellChoices(choices []string) string {
	return strings.Join(choices, ", ") + "? [" + choices[0] + "]"
}

// choose returns the choice that a line selects; empty for any other line.
func choose(line string, choices []string) string {
	line = strings.ToLower(strings.TrimSpace(line))
	if line == "" {
		return choices[0]
	}
	var found []string
	for _, c := range choices {
		if c == line {
			return c
		}
		if strings.HasPrefix(c, line) {
			found = append(found, c)
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	return ""
}
