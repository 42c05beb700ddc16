package turns

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runTurns reports whether a test that belongs to a turn runs.
func runTurns(t *testing.T, n, of int) (ran bool) {
	t.Run("test", func(t *testing.T) {
		SkipUnlessTurn(t, n, of)
		ran = true
	})
	return ran
}

func TestEachTurnRunsOnceInItsGroup(t *testing.T) {
	for _, run := range []string{"0", "7", "561"} {
		t.Setenv(variable, run)
		ran := 0
		for n := range 3 {
			if runTurns(t, n, 3) {
				ran++
			}
		}
		if ran != 1 {
			t.Errorf("in run %s, %d of 3 turns run", run, ran)
		}
	}
	for _, run := range []string{"", "all"} {
		t.Setenv(variable, run)
		if !runTurns(t, 1, 3) || !runTurns(t, 2, 3) {
			t.Errorf("%s=%q skips a test", variable, run)
		}
	}
}

func TestAllItemsAndPlacesAreTriedByTurns(t *testing.T) {
	items, places := map[string]int{}, map[int]int{}
	for _, run := range []string{"40", "41", "42", "43"} {
		t.Setenv(variable, run)
		mine := ItemsOfTurn(t, 4)
		for _, item := range []string{"spec.channel", "spec.subnets[].cidr", "spec.kubelet.maxPods", "spec.image"} {
			if mine(item) {
				items[item]++
			}
		}
		for at, step := PlacesOfTurn(t, 4); at <= 10; at += step {
			places[at]++
		}
	}
	if len(items) != 4 || len(places) != 10 {
		t.Errorf("four runs try the items %v and the places %v", items, places)
	}
	for item, n := range items {
		if n != 1 {
			t.Errorf("%s is tried %d times in four runs", item, n)
		}
	}
	t.Setenv(variable, "")
	if first, step := PlacesOfTurn(t, 4); first != 1 || step != 4 {
		t.Errorf("where nothing is said, the places are %d, %d later and so on", first, step)
	}
	t.Setenv(variable, "all")
	if first, step := PlacesOfTurn(t, 4); first != 1 || step != 1 {
		t.Errorf("all places are %d, %d later and so on", first, step)
	}
}

func TestWhatIsLeftOutIsReportedWithItsCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report")
	t.Setenv(report, file)
	t.Setenv(variable, "2")
	runTurns(t, 0, 3)
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "(cd ./internal/test/turns && KOPS_TURN=all go test -run '^TestWhatIsLeftOutIsReportedWithItsCommand$' .)"
	if !strings.Contains(string(got), want) {
		t.Errorf("the report is %q and lacks %q", got, want)
	}
}
