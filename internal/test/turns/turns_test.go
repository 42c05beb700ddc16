package turns

import (
	"os"
	"path/filepath"
	"strconv"
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

// runPart reports whether a test of an item runs.
func runPart(t *testing.T, s Share) (ran bool) {
	t.Run("test", func(t *testing.T) {
		SkipUnlessPicked(t, s)
		ran = true
	})
	return ran
}

func TestEachRunPicksWhatTheChangeConcerns(t *testing.T) {
	for _, c := range []struct{ run, touched, want string }{
		{"0", "", "a b"}, {"1", "", "c a"}, {"2", "", "b c"}, {"3", "", "a b"},
		{"0", "c", "c a"}, {"1", "x b", "b c"}, {"1", "a b c", "c a"}, {"2", "a b", "b a"},
	} {
		t.Setenv(variable, c.run)
		t.Setenv(touched, c.touched)
		for _, item := range []string{"a", "b", "c"} {
			if got := runPart(t, Share{Item: item, Of: []string{"a", "b", "c"}, Pick: 2, Parts: 1}); got != strings.Contains(c.want, item) {
				t.Errorf("run %s, touched %q: %s runs: %v; want %s", c.run, c.touched, item, got, c.want)
			}
		}
	}
}

func TestAllPartsOfAllItemsRunByTurns(t *testing.T) {
	for all := 1; all <= 8; all++ {
		items := strings.Split("abcdefgh", "")[:all]
		ran := map[string]bool{}
		for run := range 3 * all {
			t.Setenv(variable, strconv.Itoa(900+run))
			for _, item := range items {
				for part := range 3 {
					if runPart(t, Share{Item: item, Of: items, Pick: 2, Part: part, Parts: 3}) {
						ran[item+strconv.Itoa(part)] = true
					}
				}
			}
		}
		if len(ran) != 3*all {
			t.Errorf("of %d items, only these parts run: %v", all, ran)
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
