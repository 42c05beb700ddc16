package template_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/cli/toolbox/template"
)

func values(t *testing.T, texts ...string) map[string]any {
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
	got := values(t, "groups: {foo: {ami: ami-1, type: m4.large}}\nlist: [a, b]", "groups: {foo: {type: t2.large}}\nlist: [c]")
	if d := cmp.Diff(values(t, "groups: {foo: {ami: ami-1, type: t2.large}}\nlist: [c]"), got); d != "" {
		t.Error(d)
	}
}

func TestValuesAreSetByArguments(t *testing.T) {
	got := map[string]any{}
	for _, s := range []struct {
		argument string
		literal  bool
	}{{"foo.myArray={1,2,3}", true}, {"version=1.5,foo.bar=baz", false}, {"foo.myArray[1]=false,foo.myArray[3]=4", false}, {`text=a\,b=c,a\.b=1,empty={}`, false}} {
		if err := template.Set(got, s.argument, s.literal); err != nil {
			t.Fatal(err)
		}
	}
	want := values(t, `{version: 1.5, foo: {bar: baz, myArray: ["1", false, "3", 4]}, text: "a,b=c", "a.b": 1, empty: []}`)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if v, ok := template.Get(got, "foo.myArray[3]"); !ok || v != 4.0 {
		t.Errorf("foo.myArray[3] is %v, %v", v, ok)
	}
	for _, path := range []string{"foo.none", "foo.myArray[4]", "version.x", "[0]", ""} {
		if v, ok := template.Get(got, path); ok {
			t.Errorf("%s is %v", path, v)
		}
	}
	for argument, want := range map[string]string{"a": `"a" sets nothing`, "=b": "sets nothing", "a[x]=1": "is no path", "a[99999999]=1": "is no path", "[0]=1": "is no path",
		"version.x=1": `what "x" is to be in is not a map`, "foo[0]=1": "not a list", "a=[": "is no YAML"} {
		if err := template.Set(got, argument, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", argument, err, want)
		}
	}
}

func TestTemplates(t *testing.T) {
	v := values(t, `{"dns":{"value":"w5.example.com"},"zones":{"value":["us-east-1a","us-east-1b"]},"area":{"value":"us-east-1"}}`)
	o := template.Options{Values: v, FailOnMissing: true, Snippets: map[string]string{"member.yaml": "- name: {{ . }}\n"}}
	for _, c := range []struct{ name, text, want, wrong string }{
		{"the root in a range, and sprig", "z:\n{{- range $n, $zone := .zones.value }}\n- {{ . | replace $.area.value \"\" }}\n{{- end }}", "z:\n- a\n- b\n", ""},
		{"a snippet", `m:{{ range .zones.value }}
{{ include "member.yaml" . | indent 2 }}{{ end }}`, "m:\n  - name: us-east-1a\n  \n  - name: us-east-1b\n", ""},
		{"a value that is missing", "a: {{ .cidr }}", "", `template x: template: x:1:6: executing "x" at <.cidr>: map has no entry for key "cidr"; set it with --values or --set, or leave it empty with --fail-on-missing=false`},
		{"a snippet that is missing", `{{ include "none" . }}`, "", "there is no snippet none; name its file or folder with --snippets"},
		{"what is no template", "{{ .a", "", "unclosed action"},
		{"the network", `{{ getHostByName "example.com" }}`, "", `function "getHostByName" not defined`},
	} {
		got, err := template.Render([]template.File{{Name: "x", Text: c.text}}, o)
		if c.wrong == "" && (err != nil || got != c.want) || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	o.FailOnMissing = false
	got, err := template.Render([]template.File{{"x", "---\nb: {{ default 7 .none }}\na: 1"}, {"y", "c:   [1,\n 2]\n"}}, o)
	if err != nil || got != "b: 7\na: 1\n---\nc:   [1,\n 2]\n" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err = template.Format(got); err != nil || got != "a: 1\nb: 7\n---\nc:\n- 1\n- 2\n" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := template.Format("a: 1\n---\nb: ["); err == nil || !strings.Contains(err.Error(), "document 2 of the output is no YAML") {
		t.Error(err)
	}
}
