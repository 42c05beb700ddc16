package text_test

import (
	"bytes"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/render/text"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/test/sim"
)

// Values that are shortened on a screen are complete elsewhere, and a full preview shows new texts,
// but no secret ones.
func TestLongValuesAndNewTexts(t *testing.T) {
	long := strings.Repeat("debian", 30)
	script := resource.Text(resource.Lit("first\nsecond\n"))
	shown := func(o text.Options, c resource.Content) string {
		n := sim.NewTemplate(sim.Template{Name: "t", Image: long, Script: c})
		var b bytes.Buffer
		p := &plan.Plan{Steps: []plan.Step{{Address: n.Address, Op: plan.Create, Kind: n.Kind, Want: n.Want}}}
		if err := text.Plan(&b, p, o); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if got := shown(text.Options{}, script); strings.Contains(got, long) || strings.Contains(got, "+second") {
		t.Errorf("on a screen:\n%s", got)
	}
	if got := shown(text.Options{Whole: true}, script); !strings.Contains(got, long) || strings.Contains(got, "+second") {
		t.Errorf("piped:\n%s", got)
	}
	if got := shown(text.Options{Full: true}, script); !strings.Contains(got, long) || !strings.Contains(got, "        +second\n") {
		t.Errorf("in full:\n%s", got)
	}
	if got := shown(text.Options{Full: true}, script.Hide()); strings.Contains(got, "second") {
		t.Errorf("a hidden text is shown:\n%s", got)
	}
}
