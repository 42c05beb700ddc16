package template_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/sprig/v3"
	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/cli/toolbox/template"
)

// parse reads files of values; each overrides the ones before.
func parse(t *testing.T, texts ...string) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, text := range texts {
		v, err := template.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		out = template.Merge(out, v)
	}
	return out
}

func TestLaterValuesWinAndMapsAreMerged(t *testing.T) {
	got := parse(t, "groups: {foo: {ami: ami-1, type: m4.large, spot: true}}\nlist: [a, b]", "groups: {foo: {type: t2.large, spot: false}}\nlist: [c]")
	want := map[string]any{"groups": map[string]any{"foo": map[string]any{"ami": "ami-1", "type": "t2.large", "spot": false}}, "list": []any{"c"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestNumbersOfValues(t *testing.T) {
	got := parse(t, `{"whole": 123456789012, "point": 3.0, "half": [0.5, -1], "deep": {"n": 1}}`)
	want := map[string]any{"whole": int64(123456789012), "point": int64(3), "half": []any{0.5, int64(-1)}, "deep": map[string]any{"n": int64(1)}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for text, want := range map[string]string{"[1]": "it is not a map", "a: [": "it is not valid YAML", "a: 1\na: 2": `key "a" already set`} {
		if _, err := template.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestValuesAreSetByArguments(t *testing.T) {
	got := map[string]any{}
	for _, s := range []struct {
		argument string
		literal  bool
	}{
		{"foo.list={1,2,3}", true}, {"version=1.30,foo.bar=baz,n=7,zero=0", false}, {"foo.list[1]=false,foo.list[3]=4", false}, {`text=a\,b=c,a\.b=1,empty={},none=`, false},
		{"octal=0755,minus=-1,plus=+1,date=2026-01-01,yes=yes,null=null", false}, {"list[1].name=x,deep[0][1]=y", false}, {"literal=true", true}, {"braces=a}b,after={x}", false},
	} {
		if err := template.Set(got, s.argument, s.literal); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]any{
		"foo": map[string]any{"list": []any{"1", false, "3", int64(4)}, "bar": "baz"}, "version": "1.30", "n": int64(7), "zero": int64(0), "text": "a,b=c", "a.b": int64(1),
		"empty": []any{}, "none": "", "octal": "0755", "minus": int64(-1), "plus": "+1", "date": "2026-01-01", "yes": "yes", "null": nil,
		"list": []any{nil, map[string]any{"name": "x"}}, "deep": []any{[]any{nil, "y"}}, "literal": "true", "braces": "a}b", "after": []any{"x"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if v, ok := template.Get(got, "foo.list[3]"); !ok || v != int64(4) {
		t.Errorf("foo.list[3] is %v, %v", v, ok)
	}
	for _, path := range []string{"foo.none", "foo.list[4]", "version.x", "[0]", ""} {
		if v, ok := template.Get(got, path); ok {
			t.Errorf("%s is %v", path, v)
		}
	}
	for argument, want := range map[string]string{
		"a": `"a" sets nothing`, "=b": "sets nothing", "a[x]=1": "is not a path", "a[99999999]=1": "is not a path", "[0]=1": "is not a path", "a[]=1": "is not a path", "a[1=1": "is not a path",
		"a..b=1": "is not a path", "version.x=1": `version.x: "x" cannot be set in a text`, "foo[0]=1": "foo[0]: [0] cannot be set in a map", "a={x": "a: the list {x does not end with }",
	} {
		if err := template.Set(got, argument, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", argument, err, want)
		}
	}
}

func TestRender(t *testing.T) {
	v := parse(t, `{"zones":["us-east-1a","us-east-1b"],"area":"us-east-1","n":3,"half":0.5}`)
	o := template.Options{Values: v, FailOnMissing: true, Snippets: map[string]string{
		"member.yaml": "- name: {{ . }}\n", "endless": `{{ include "endless" . }}`, "wrong": "\n{{ .none.x }}", "other": `{{ template "nowhere" }}`, "part": `{{ define "b" }}from the snippet{{ end }}`,
	}}
	for _, c := range []struct{ name, text, want, wrong string }{
		{"the root in a range, and sprig", "z:\n{{- range $n, $zone := .zones }}\n- {{ . | replace $.area \"\" }}\n{{- end }}", "z:\n- a\n- b\n", ""},
		{"a snippet", "m:\n{{ range .zones }}{{ include \"member.yaml\" . }}{{ end }}", "m:\n- name: us-east-1a\n- name: us-east-1b\n", ""},
		{"a template of a snippet", `{{ block "b" . }}default{{ end }} {{ template "member.yaml" 1 }}`, "from the snippet - name: 1\n", ""},
		{"numbers in formats", `{{ printf "%d %.1f %5d %v %s %.0f" .n .n .n .n .area (float64 .n) }}`, "3 3.0     3 3 us-east-1 3\n", ""},
		{"numbers are converted", `{{ until .n }} {{ trunc .n .area }} {{ eq .n 3.0 }} {{ gt .half 0 }}`, "[0 1 2] us- true true\n", ""},
		{"lists of numbers", `{{ until -2 }} {{ until 0 }} {{ untilStep 3 9 3 }} {{ untilStep 9 3 -4 }} {{ untilStep 1 2 -1 }} {{ untilStep 1 2 0 }} {{ untilStep 0 9223372036854775807 9223372036854775806 }} {{ len (until 1000000) }}`,
			"[0 -1] [] [3 6] [9 5] [] [] [0 9223372036854775806] 1000000\n", ""},
		{"a list that is too long", `{{ until 100000000 }}`, "", "at <until 100000000>: until: the list from 0 to 100000000 has more than 1000000 numbers"},
		{"another list that is too long", `{{ untilStep -9223372036854775807 9223372036854775807 9 }}`, "", "has more than 1000000 numbers"},
		{"a host that is not found", `{{ getHostByName "no..host" }}`, "", `at <getHostByName "no..host">: getHostByName: lookup no..host: no such host`},
		{"methods", `{{ $t := toDate "2006-01-02" "2026-11-28" }}{{ $t.Month }} {{ ($t.AddDate 0 0 3).Format "Jan 2" }} {{ (($t.Add 60000000000).Sub $t).Minutes }} {{ ((semver "1.2.3").IncMinor).Minor }} {{ $t.Month.String }}`, "November Dec 1 1 3 November\n", ""},
		{"fields of what sprig returns", `{{ (genSelfSignedCert "x" nil nil 1).Cert | trunc 27 }}`, "-----BEGIN CERTIFICATE-----\n", ""},
		{"a value that is missing", "\na: {{ .cidr }}", "", `template: x:2:6: at <.cidr>: the map has no entry "cidr"; set it with --values or --set, or allow it with --fail-on-missing=false`},
		{"a mistake in a snippet", `{{ include "wrong" . }}`, "", `template: x:1:3: at <include "wrong" .>: include: template: wrong:2:8: at <.none.x>: the map has no entry "none"; set it`},
		{"a snippet that is missing", `{{ include "members.yaml" . }}`, "", `there is no snippet "members.yaml"; did you mean "member.yaml"?`},
		{"another snippet that is missing", `{{ include "something" . }}`, "", `there is no snippet "something"; name its file or folder with --snippets`},
		{"a template that is missing in a snippet", `{{ include "other" . }}`, "", `other:1:12: at <{{template "nowhere"}}>: template "nowhere" is not defined`},
		{"snippets without an end", `{{ include "endless" . }}`, "", "snippets include each other more than 1000 deep"},
		{"an unclosed action", "{{ .a", "", "template: x:1: unclosed action"},
		{"YAML", "a:\n{{- toYaml .zones | nindent 2 }}\nb: {{ (fromYaml \"c: [1]\").c }}", "a:\n  - us-east-1a\n  - us-east-1b\nb: [1]\n", ""},
		{"what is no YAML", `{{ fromYaml "[" }}`, "", `template: x:1:3: at <fromYaml "[">: fromYaml: `},
		{"a function that is missing", "a\n{{ 1 | toJSN }}", "", `template: x:2:7: function "toJSN" not defined; did you mean "toJson"?`},
		{"another function that is missing", "{{ somethingElse }}", "", `function "somethingElse" not defined; see docs/templates.md for the functions`},
		{"a failure that is meant", `{{ fail "no zones" }}`, "", `template: x:1:3: at <fail "no zones">: fail: no zones`},
		{"a function that panics", `{{ first .n }}`, "", `template: x:1:3: at <first .n>: first: Cannot find first on type int64`},
	} {
		got, err := template.Render([]template.File{{Name: "x", Text: c.text}}, o)
		if c.wrong == "" && (err != nil || got != c.want) || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

func TestDocumentsAreFormatted(t *testing.T) {
	got, err := template.Render([]template.File{{"x", "---\nb: {{ default 7 .none }}\na: 1048576 # much"}, {"y", "c:   [1,\n 2]\n--- \n\n---\nd: |\n  ---\n"}}, template.Options{})
	if err != nil || got != "b: 7\na: 1048576 # much\n---\nc:   [1,\n 2]\n--- \n\n---\nd: |\n  ---\n" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err = template.Format(got); err != nil || got != "a: 1048576\nb: 7\n---\nc:\n- 1\n- 2\n---\nd: |\n  ---\n" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := template.Format("a: 1\n---\nb: ["); err == nil || !strings.Contains(err.Error(), "document 2 of the output is not valid YAML") {
		t.Error(err)
	}
}

// TestEveryFunctionOfSprigIsThere parses a call of each function.
func TestEveryFunctionOfSprigIsThere(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(sprig.TxtFuncMap())) {
		if _, err := template.Render([]template.File{{"x", "{{ if false }}{{ " + name + " }}{{ end }}"}}, template.Options{}); err != nil {
			t.Error(err)
		}
	}
}
