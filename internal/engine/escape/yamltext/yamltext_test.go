package yamltext_test

import (
	"bytes"
	"testing"

	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/engine/escape"
	"kops.local/kops/internal/engine/escape/yamltext"
)

func TestMarshalKeepsValues(t *testing.T) {
	for text, want := range map[string]string{
		"one\ntwo\n":               "a: |\n  one\n  two\n",
		"größer … 日本":              "a: größer … 日本\n",
		"\x1b[2J":                  "a: \"\\e[2J\"\n",
		"\x7f \u0080 \u009b2J":     `a: "\x7F \x80 \x9B2J"` + "\n",
		"\u0085 \ufffe \uffff":     `a: "\N \uFFFE \uFFFF"` + "\n",
		"\u202eright \u2066\u009b": "{\n  \"a\": \"\\u202eright \\u2066\\u009b\"\n}\n",
	} {
		out, err := yamltext.Marshal(map[string]string{"a": text})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var again map[string]string
		if err := yaml.Unmarshal(out, &again); err != nil || again["a"] != text || string(out) != want || bytes.ContainsFunc(out, escape.IsHidden) {
			t.Errorf("%q is written as %q, which is %q, %v", text, out, again["a"], err)
		}
	}
}
