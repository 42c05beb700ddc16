package plan_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/render/text"
	"kops.local/kops/internal/test/sim"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// TestPlans reads testdata/*.txtar: want and have in the language of the simulator's scripts, and
// the results: the plan as people see it and the order of its steps, or the error. The first line
// of the comment may be prune.
func TestPlans(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no tables", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := planText(t, a)
			if *update {
				a.Files = append(a.Files[:2], txtar.File{Name: "plan", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(a.Files[2].Data), got); d != "" {
				t.Errorf("%s (-want +got; -update rewrites):\n%s", file, d)
			}
		})
	}
}

func planText(t *testing.T, a *txtar.Archive) string {
	t.Helper()
	g, err := sim.ParseGraph(string(a.Files[0].Data))
	if err != nil {
		t.Fatal(err)
	}
	have, err := sim.ParseSnapshot(string(a.Files[1].Data))
	if err != nil {
		t.Fatal(err)
	}
	o := plan.Options{Prune: strings.HasPrefix(string(a.Comment), "prune")}
	p, err := plan.Make(g, have, sim.Kinds(), o)
	for _, list := range have {
		slices.Reverse(list)
	}
	q, qerr := plan.Make(g, have, sim.Kinds(), o)
	if err != nil {
		if qerr == nil || qerr.Error() != err.Error() {
			t.Errorf("listings in reverse: %v", qerr)
		}
		return "refused: " + err.Error() + "\n"
	}
	if one, two := order(p), order(q); one != two {
		t.Errorf("listings in reverse give another plan:\n%s\n%s", one, two)
	}
	var b strings.Builder
	if err := text.Plan(&b, p, text.Options{Full: true, Preview: true}); err != nil {
		t.Fatal(err)
	}
	return b.String() + "\nIn order:\n" + order(p)
}

// order formats the steps, numbered, with the numbers of those they depend on.
func order(p *plan.Plan) string {
	var b strings.Builder
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "%2d %s %s", i, s.Op, s.Address)
		if len(s.After) > 0 {
			fmt.Fprintf(&b, " after %s", strings.Trim(fmt.Sprint(s.After), "[]"))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestDigestTellsPlansApart(t *testing.T) {
	digests := map[string]string{}
	for _, want := range []string{"", "volume a", "volume a size=2", "volume b", "volume a zone=z"} {
		for _, have := range []string{"", "volume volume-1 name=a", "volume volume-2 name=a"} {
			g, err := sim.ParseGraph(want)
			if err != nil {
				t.Fatal(err)
			}
			s, err := sim.ParseSnapshot(have)
			if err != nil {
				t.Fatal(err)
			}
			p, err := plan.Make(g, s, sim.Kinds(), plan.Options{})
			if err != nil {
				t.Fatal(err)
			}
			d, err := p.Digest()
			if err != nil {
				t.Fatal(err)
			}
			name := want + " | " + have
			if other := digests[d]; other != "" {
				t.Errorf("%q and %q have one digest", other, name)
			}
			digests[d] = name
		}
	}
}
