package kinds

import "testing"

func TestEveryKindIsDeclaredWell(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range All() {
		if err := k.Check(); err != nil {
			t.Error(err)
		}
		if seen[k.KindName()] {
			t.Errorf("%s is listed twice", k.KindName())
		}
		seen[k.KindName()] = true
	}
}
