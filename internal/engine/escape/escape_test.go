package escape_test

import (
	"encoding/json"
	"testing"

	"kops.local/kops/internal/engine/escape"
)

func TestJSONHasTheSameValues(t *testing.T) {
	for text, want := range map[string]string{
		"größer … 日本 😀":            `"größer … 日本 😀"`,
		"a\x1b[2J\tb\n":            `"a\u001b[2J\tb\n"`,
		"\x7f\u0080\u0085\u009b2J": `"\u007f\u0080\u0085\u009b2J"`,
		"\u202eright \u2066\u2069": `"\u202eright \u2066\u2069"`,
		"\ufffe\uffff\ufffd":       `"\ufffe\uffff` + "\ufffd" + `"`,
		`\u009b`:                   `"\\u009b"`,
	} {
		doc, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		got, again := escape.JSON(doc), ""
		if err := json.Unmarshal(got, &again); err != nil || string(got) != want || again != text {
			t.Errorf("%q is written as %s, which is %q, %v", text, got, again, err)
		}
	}
	if doc := []byte("{\n\t\"a\": 1\r\n}\n"); string(escape.JSON(doc)) != string(doc) {
		t.Error("characters between values are escaped")
	}
}
