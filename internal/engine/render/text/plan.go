// Package text shows plans, their progress and reasons for waiting to people, and plans to programs
// as JSON.
//
// It must not know whether it writes to a terminal: colours, width and time are parameters. It
// never queries a cloud, and shows no secret.
package text

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"kops.local/kops/finding"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/redact"
)

// Options specify how a plan is shown.
type Options struct {
	// Color marks operations with ANSI colours.
	Color bool
	// Full also shows the tags and the texts of new resources, and long values unshortened.
	Full bool
	// Whole shows long values unshortened, for output whose width does not matter.
	Whole bool
	// Preview adds the sentence on how to continue, for a plan that is only shown.
	Preview bool
}

// Plan writes what a plan would do, grouped by operation, sorted by resource, with each difference
// on a line of its own.
func Plan(w io.Writer, p *plan.Plan, o Options) error {
	if o.Color {
		w = unescaped(w)
	}
	out := &printer{Writer: bufio.NewWriter(w), color: o.Color, full: o.Full, whole: o.Full || o.Whole}
	g := group(p)
	for _, s := range []struct {
		title, mark string
		steps       []plan.Step
	}{
		{"Will create resources:", "+", g.create},
		{"Will modify resources:", "~", g.modify},
		{"Will replace resources:", "-/+", g.replace},
		{"Items will be deleted during update:", "-", g.remove},
		{"Items will be deleted only when the --prune flag is specified:", "-", g.deferred},
		{"Shared resources, used and left unchanged:", " ", g.shared},
		{"Created by others with the cluster's tags, and kept:", " ", g.foreign},
	} {
		out.section(s.title, s.mark, s.steps)
	}
	if !p.Empty() {
		out.printf("%s\n", totals(p.Summary()))
	}
	if o.Preview {
		out.printf("%s", Next(p))
	}
	return out.flush()
}

// Next returns the sentence at the end of a preview: how to continue.
func Next(p *plan.Plan) string {
	switch {
	case !p.Empty():
		return "\nMust specify --yes to apply changes\n"
	case len(p.Deferred) > 0:
		return "No changes need to be applied, except deletions that need --prune\n"
	}
	return "No changes need to be applied\n"
}

// groups are the steps of a plan by what happens to their resources.
type groups struct {
	create, modify, replace, remove, deferred, shared, foreign []plan.Step
}

func group(p *plan.Plan) groups {
	g := groups{deferred: slices.Clone(p.Deferred), foreign: slices.Clone(p.Foreign)}
	replaced := map[any]bool{}
	for _, s := range p.Steps {
		if s.Replaces {
			replaced[s.Have] = true
		}
	}
	for _, s := range p.Steps {
		switch {
		case s.Shared:
			g.shared = append(g.shared, s)
		case s.Replaces:
			g.replace = append(g.replace, s)
		case s.Op == plan.Create:
			g.create = append(g.create, s)
		case s.Op == plan.Update:
			g.modify = append(g.modify, s)
		case s.Op == plan.Delete && !replaced[s.Have]:
			g.remove = append(g.remove, s)
		}
	}
	for _, list := range [][]plan.Step{g.create, g.modify, g.replace, g.remove, g.deferred, g.shared, g.foreign} {
		slices.SortStableFunc(list, func(a, b plan.Step) int {
			return cmp.Or(cmp.Compare(a.Address.Kind, b.Address.Kind), cmp.Compare(a.Address.Name, b.Address.Name), cmp.Compare(identity(a), identity(b)))
		})
	}
	return g
}

// identity returns the first identity of an observed object, or "".
func identity(s plan.Step) string {
	first := ""
	if s.Have != nil {
		s.Kind.Schema().Identities(s.Have, func(id string) { first = cmp.Or(first, id) })
	}
	return first
}

// totals counts a plan's resources: "Plan: 1 to create, 2 unchanged".
func totals(c plan.Summary) string {
	var parts []string
	for _, t := range []count{
		{c.Create, "to create"}, {c.Modify, "to modify"}, {c.Replace, "to replace"}, {c.Delete, "to delete"},
		{c.Deferred, "only with --prune"}, {c.Keep, "unchanged"}, {c.Shared, "shared"},
	} {
		if t.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", t.n, t.what))
		}
	}
	return "Plan: " + strings.Join(parts, ", ")
}

// previewFormat is the version of a report's format.
const previewFormat = 1

// report is the JSON form of a plan. Kind distinguishes it from a saved plan.
type report struct {
	Format  int    `json:"format"`
	Kind    string `json:"kind"`
	Cluster string `json:"cluster"`
	// Version is the program's version.
	Version   string       `json:"version"`
	Time      time.Time    `json:"time"`
	Digest    string       `json:"digest"`
	Summary   plan.Summary `json:"summary"`
	Steps     []reportStep `json:"steps"`
	Deferred  []reportStep `json:"deferred,omitempty"`
	Foreign   []reportStep `json:"foreign,omitempty"`
	Aftermath any          `json:"aftermath,omitempty"`
	Risks     finding.List `json:"risks,omitempty"`
}

// reportStep is a step with the identities of the existing object.
type reportStep struct {
	plan.Step
	IDs []string `json:"ids,omitempty"`
}

// reportSteps leaves out the contents of kept resources, as nothing happens to them.
func reportSteps(steps []plan.Step) []reportStep {
	out := make([]reportStep, len(steps))
	for i, s := range steps {
		if s.Have != nil {
			out[i].IDs = ids(s.Kind, s.Have)
		}
		if s.Op == plan.Keep {
			s.Have, s.Want = nil, nil
		}
		out[i].Step = s
	}
	return out
}

// JSON writes a plan with its digest and with how many resources are created, modified, replaced,
// deleted, deferred (deleted only with --prune), kept and shared. Every step comes after the steps
// it depends on. For kept resources only names and identities are written.
func JSON(w io.Writer, p *plan.Plan, of Run) error {
	digest, err := p.Digest()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err = enc.Encode(report{Format: previewFormat, Kind: "preview", Cluster: of.Cluster, Version: of.Version, Time: of.Time,
		Digest: digest, Summary: p.Summary(), Steps: reportSteps(p.Steps), Deferred: reportSteps(p.Deferred), Foreign: reportSteps(p.Foreign), Aftermath: of.Aftermath, Risks: of.Risks})
	if err == nil {
		_, err = io.WriteString(w, redact.Userinfo(out.String()))
	}
	if err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return nil
}
