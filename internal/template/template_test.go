package template_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"text/template"

	mine "kops.local/kops/internal/template"
)

type kind string

type inner struct {
	Text  *string
	Count int32
	Small uint8
}

// data is the data of the tests' templates. Its methods are its template functions.
type data struct {
	inner
	Name  string
	Kind  kind
	Yes   *bool
	No    *inner
	List  []string
	Items []inner
	Map   map[string]string
	Any   any
	Empty []string
	Limit quantity
}

// quantity has a String method on its pointer, as the quantities of Kubernetes do.
type quantity struct{ n string }

func (q *quantity) String() string { return "quantity " + q.n }

func (d *data) Greet(names ...string) string { return "hello " + strings.Join(names, " and ") }
func (d *data) Fails() (string, error)       { return "", errors.New("it is broken") }
func (d *data) Double(n int64) int64         { return 2 * n }
func (d *data) CountOf(i *inner) int32       { return i.Count }

func (d *data) TemplateFunc(name string) any {
	return map[string]any{"Greet": d.Greet, "Fails": d.Fails, "Double": d.Double, "CountOf": d.CountOf}[name]
}

func sample() *data {
	text, yes := "deep", true
	return &data{inner: inner{Text: &text, Count: 3, Small: 7}, Name: "a.example.com", Kind: "aws", Yes: &yes, List: []string{"x", "y"},
		Items: []inner{{Count: 1}, {Count: 2, Text: &text}}, Map: map[string]string{"b": "2", "a": "1"}, Any: map[string]any{"k": []int{4, 5}}, Limit: quantity{"5"}}
}

func funcs() map[string]any {
	return map[string]any{
		"isTrue": func(b *bool) bool { return b != nil && *b },
		"join":   strings.Join,
		"first": func(values ...any) any {
			for _, v := range values {
				if v != nil && !reflect.ValueOf(v).IsZero() {
					return v
				}
			}
			return nil
		},
		"broken": func() (string, error) { return "", errors.New("it is broken") },
		"length": func(s string) int { return len(s) },
	}
}

// both executes a text with text/template and with this package.
func both(t *testing.T, text string) (want string, wantErr error, got string, gotErr error) {
	t.Helper()
	std, wantErr := template.New("t").Option("missingkey=error").Funcs(funcs()).Parse(text)
	own, gotErr := mine.Parse("t", text, funcs())
	if (wantErr == nil) != (gotErr == nil) {
		t.Fatalf("parse: %v, want %v", gotErr, wantErr)
	}
	if wantErr != nil {
		return "", wantErr, "", gotErr
	}
	var b strings.Builder
	wantErr = std.Execute(&b, sample())
	got, gotErr = own.Execute(sample())
	return b.String(), wantErr, got, gotErr
}

// TestTextsMatchTheStandardLibrary also executes each text with text/template.
func TestTextsMatchTheStandardLibrary(t *testing.T) {
	for _, text := range []string{
		"", "plain", "{{ .Name }}", "{{ .Kind }} {{ .Count }} {{ .Text }} {{ .Yes }} {{ .No }} {{ .Any }} {{ .Limit }}", "{{ 1 }} {{ 1.5 }} {{ 'a' }} {{ true }} {{ \"x\\n\" }}",
		"{{ with .Text }}<{{ . }}>{{ end }}{{ with .No }}no{{ else }}none{{ end }}{{ with .No }}no{{ else with .Name }}{{ . }}{{ end }}",
		"{{ if .Yes }}yes{{ end }}{{ if isTrue .Yes }}true{{ end }}{{ if .Empty }}some{{ else if .List }}list{{ else }}none{{ end }}",
		"{{ range .List }}[{{ . }}{{ $.Name }}]{{ end }}{{ range .Empty }}x{{ else }}nothing{{ end }}",
		"{{ range $i, $e := .List }}{{ $i }}={{ $e }};{{ end }}{{ range $e := .List }}{{ $e }}{{ end }}{{ range $k, $v := .Map }}{{ $k }}{{ $v }}{{ end }}",
		"{{ range .Items }}{{ .Count }}{{ with .Text }}{{ . }}{{ end }}{{ end }}",
		"{{ $x := 1 }}{{ if .Yes }}{{ $x = 2 }}{{ $y := 3 }}{{ $y }}{{ end }}{{ $x }}{{ $x := 5 }}{{ $x }}",
		"{{ define \"d\" }}({{ . }}{{ $ }}){{ end }}{{ template \"d\" .Name }}{{ template \"d\" }}",
		"{{- /* a comment */ -}} x {{- .Name -}} y",
		"{{ .Greet }} {{ .Greet \"a\" }} {{ .Greet \"a\" .Name }} {{ $.Greet .Name }}", "{{ .Double 4 }}", "{{ range .Items }}{{ $.CountOf . }}{{ end }}",
		"{{ and .Yes .Name }} {{ and .No .No.Count }} {{ or .Empty .Name }} {{ or .Name .No.Count }} {{ not .Yes }} {{ not .No }} {{ and true 0 }}",
		"{{ eq .Kind \"aws\" }} {{ eq .Kind \"x\" \"aws\" }} {{ ne .Name \"x\" }} {{ eq .Count 3 }} {{ eq .Small 7 }} {{ eq 1.5 1.5 }} {{ eq true false }}",
		"{{ gt .Count 2 }} {{ lt .Count 2 }} {{ le 3 .Count }} {{ ge .Small 8 }} {{ lt \"a\" .Name }} {{ gt (len .List) 1 }} {{ lt 1.5 2.5 }} {{ lt -1 .Small }}",
		"{{ len .Name }} {{ len .Map }} {{ len .Empty }}", "{{ index .List 1 }} {{ index .Map \"a\" }}{{ index .Map \"none\" }} {{ index .Any \"k\" 1 }}",
		"{{ (index .Items 1).Count }} {{ (index .Items 1).Text }}", "{{ .Map.a }}", "{{ .Any.k }}", "{{ printf \"%q %d %v\" .Name .Count .List }}",
		"{{ join .List \"-\" }} {{ .Name | length }} {{ \"-\" | join .List | length | printf \"%03d\" }}", "{{ first .No .Empty .Name }}", "{{ first nil .Name }}",
	} {
		want, wantErr, got, gotErr := both(t, text)
		if wantErr != nil || gotErr != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q, %v", text, got, gotErr, want, wantErr)
		}
	}
}

// TestArgumentsAreConverted passes texts and numbers to functions with other parameter types, for
// which text/template requires a conversion.
func TestArgumentsAreConverted(t *testing.T) {
	for text, want := range map[string]string{"{{ .Greet .Kind }}": "hello aws", "{{ .Double .Count }}": "6", "{{ length .Kind }}": "3"} {
		if _, _, got, err := both(t, text); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
}

// TestMistakesAreNamedWithTheirPlace executes templates that fail, here and with text/template.
func TestMistakesAreNamedWithTheirPlace(t *testing.T) {
	for text, want := range map[string]string{
		"a\n{{ .Nome }}":             "t:2:3: at <.Nome>: an object has no field or function Nome",
		"{{ .No.Count }}":            "t:1:6: at <.No.Count>: Count of nothing: the value before it is nil",
		"{{ .Map.none }}":            `t:1:7: at <.Map.none>: the map has no entry "none"`,
		"{{ .Fails }}":               "at <.Fails>: Fails: it is broken",
		"{{ broken }}":               "at <broken>: broken: it is broken",
		"{{ .Name 1 }}":              "Name is not a function",
		"{{ $x := 1 }}{{ $x 1 }}":    "$x is not a function",
		"{{ length }}":               "length has 0 arguments, and needs 1",
		"{{ length 1 }}":             "argument 1 of length: it is a number, and not a text",
		"{{ length nil }}":           "argument 1 of length: it is nil, and not a text",
		"{{ eq .List 1 }}":           "a list and a number cannot be compared",
		"{{ lt .Name 1 }}":           "a text and a number cannot be compared",
		"{{ index .List 2 }}":        "there is no element 2 of 2",
		"{{ len .Count }}":           "a number has no length",
		"{{ range .Name }}{{ end }}": "range cannot iterate over a text",
		"{{ template \"none\" }}":    `template "none" is not defined`,
		"{{ define \"d\" }}{{ template \"d\" }}{{ end }}{{ template \"d\" }}": "templates call each other more than 1000 deep",
		"{{ index .List nil }}": "the index: it is nil, and not a number", "{{ call .Name }}": ".Name is not a function", "{{ $x := \"a\" }}{{ index .List $x }}": "the index: it is a text, and not a number",
	} {
		_, wantErr, _, err := both(t, text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
		if wantErr == nil && !strings.Contains(text, `template "d"`) {
			t.Errorf("%s: text/template accepts it", text)
		}
	}
	for _, text := range []string{"{{ if }}", "{{ none }}", "{{ end }}", "{{ $x }}"} {
		if _, err := mine.Parse("t", text, nil); err == nil || !strings.Contains(err.Error(), "t:1") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestUnknownFunctionsAreFoundEverywhere(t *testing.T) {
	for _, text := range []string{
		"{{ nine }}", "{{ 1 | nine }}", "{{ print (nine 1).x }}", "{{ if nine }}{{ end }}", "{{ if 1 }}{{ else if 2 }}{{ nine }}{{ end }}", "{{ range .x }}{{ nine }}{{ end }}",
		"{{ with .x }}{{ else }}{{ nine }}{{ end }}", "{{ define \"d\" }}{{ nine }}{{ end }}", "{{ template \"d\" nine }}", "{{ $x := nine }}",
	} {
		_, err := mine.Parse("f.yaml", "\n"+text, nil)
		if unknown := (&mine.UnknownFunctionError{}); !errors.As(err, &unknown) || unknown.Function != "nine" || !strings.HasPrefix(unknown.Place, "f.yaml:2:") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestLaterTextsReplaceWhatEarlierOnesDefine adds texts, here and with text/template.
func TestLaterTextsReplaceWhatEarlierOnesDefine(t *testing.T) {
	main, later := `{{ block "b" . }}old{{ end }}{{ template "part" 1 }}{{ template "c" }}{{ define "c" }}c{{ end }}`, `{{ define "b" }}new{{ end }}{{ define "c" }} {{ end }}<{{ . }}>`
	std := template.Must(template.Must(template.New("main").Parse(main)).New("part").Parse(later)).Lookup("main")
	var want strings.Builder
	if err := std.Execute(&want, 0); err != nil {
		t.Fatal(err)
	}
	first, err := mine.Parse("main", main, nil)
	if err != nil {
		t.Fatal(err)
	}
	both, err := first.Add("part", later)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := both.Execute(0); err != nil || got != want.String() {
		t.Errorf("got %q, %v, want %q", got, err, want.String())
	}
	if _, err := first.Execute(0); err == nil {
		t.Error("the text is part of the first template, too")
	}
}

func TestPanicsOfFunctionsAreErrors(t *testing.T) {
	own, err := mine.Parse("t", "{{ bad }}", mine.Funcs{"bad": func() string { panic("no reason") }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.Execute(nil); err == nil || !strings.Contains(err.Error(), "t:1:3: at <bad>: bad: no reason") {
		t.Error(err)
	}
}

func TestMethodsOfValuesAreFunctions(t *testing.T) {
	own, err := mine.Parse("t", "{{ .Add 2 }} {{ .Limit.Twice }}", nil)
	if err != nil {
		t.Fatal(err)
	}
	own = own.WithOptions(mine.Options{MissingKeysAreZero: true, Methods: func(of any, name string) any {
		switch of := of.(type) {
		case map[string]any:
			return map[string]any{"Add": func(n int) int { return n + len(of) }}[name]
		case int:
			return map[string]any{"Twice": func() int { return 2 * of }}[name]
		}
		return nil
	}})
	if got, err := own.Execute(map[string]any{"Limit": 4}); err != nil || got != "3 8" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestFunctionsCanBeReplaced(t *testing.T) {
	first, err := mine.Parse("t", `{{ define "d" }}{{ word }} {{ . }}{{ end }}{{ word }}`, mine.Funcs{"word": func() string { return "old" }})
	if err != nil {
		t.Fatal(err)
	}
	second := first.With(mine.Funcs{"word": func() string { return "new" }})
	for of, want := range map[*mine.Template]string{first: "old", second: "new"} {
		if got, err := of.Execute(nil); err != nil || got != want {
			t.Errorf("%q, %v, want %s", got, err, want)
		}
		if got, err := of.ExecuteDefined("d", 1); err != nil || got != want+" 1" {
			t.Errorf("%q, %v", got, err)
		}
	}
	if _, err := first.ExecuteDefined("none", nil); err == nil {
		t.Error("a template that is not defined has a text")
	}
}
