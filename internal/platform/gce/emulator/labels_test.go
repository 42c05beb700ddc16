package emulator

import (
	"strings"
	"testing"
)

func TestLabels(t *testing.T) {
	long := strings.Repeat("é", maxLabel)
	for text, want := range map[string]struct{ key, value bool }{
		"a": {true, true}, "a-b_9": {true, true}, long: {true, true}, "語": {true, true},
		"": {false, true}, "9a": {false, true}, "_": {false, true}, "-a": {false, true},
		"A": {false, false}, "a.b": {false, false}, "a b": {false, false}, long + "a": {false, false}, "\xff": {false, false},
	} {
		if isLabelKey(text) != want.key || isLabelValue(text) != want.value {
			t.Errorf("%q: key %v, value %v, want %v", text, isLabelKey(text), isLabelValue(text), want)
		}
	}
}
