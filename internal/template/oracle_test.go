package template_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/Masterminds/sprig/v3"

	mine "kops.local/kops/internal/template"
)

// values returns what a values file may contain.
func values() map[string]any {
	return map[string]any{
		"name": "a.example.com", "empty": "", "text": " Some <b>text</b>, 'quoted' & \"so\"\n\tünd\x00 ", "yes": true, "no": false, "nothing": nil,
		"zero": int64(0), "three": int64(3), "minus": int64(-2), "half": 0.5, "big": int64(1048576), "float": 3.0,
		"list": []any{"x", int64(2), nil, true, "x"}, "words": []any{"c", "a", "b"}, "ints": []any{int64(1), int64(2), int64(3)}, "none": []any{},
		"zones": []any{map[string]any{"name": "us-east-1a", "size": int64(1)}, map[string]any{"name": "us-east-1b", "size": int64(2)}},
		"map":   map[string]any{"b": "2", "a": int64(1), "c": map[string]any{"d": []any{"e"}}}, "hollow": map[string]any{},
		"numbered": map[int]any{10: "ten", 9: "nine"}, "ratios": map[float64]string{2.5: "b", -1: "a"}, "flags": map[string]bool{"a": true},
	}
}

// leniences returns the errors of text/template about arguments that this package converts or
// compares.
func leniences() []string {
	return []string{"wrong type for value; expected", "incompatible types for comparison", "expected integer; found", "expected float; found", "cannot index slice/array with type", "; should be int"}
}

// compareWithStandardLibrary executes a text with text/template and with this package, and reports
// whether text/template executed it.
func compareWithStandardLibrary(t *testing.T, text string, zero bool) bool {
	t.Helper()
	option := "missingkey=error"
	if zero {
		option = "missingkey=zero"
	}
	std, wantErr := template.New("t").Option(option).Funcs(sprig.TxtFuncMap()).Parse(text)
	own, err := mine.Parse("t", text, sprig.GenericFuncMap())
	if (wantErr == nil) != (err == nil) {
		t.Errorf("parse %s\n got %v\nwant %v", text, err, wantErr)
	}
	if wantErr != nil || err != nil {
		return false
	}
	var want strings.Builder
	wantErr = std.Execute(&want, values())
	got, err := own.WithOptions(mine.Options{MissingKeysAreZero: zero}).Execute(values())
	lenient := wantErr != nil && slices.ContainsFunc(leniences(), func(l string) bool { return strings.Contains(wantErr.Error(), l) })
	switch {
	case wantErr == nil && (err != nil || got != want.String()), wantErr != nil && err == nil && !lenient:
		t.Errorf("%s\n got %q, %v\nwant %q, %v", text, got, err, want.String(), wantErr)
	case err != nil && !strings.HasPrefix(err.Error(), "template: t:"):
		t.Errorf("%s: the error does not name the place: %v", text, err)
	}
	return wantErr == nil
}

// TestTemplatesOfValues also executes each text with text/template, with values as in files, and
// with and without missing keys as errors.
func TestTemplatesOfValues(t *testing.T) {
	for _, text := range []string{
		"{{ range .list }}{{ if eq (kindOf .) \"int64\" }}{{ continue }}{{ end }}[{{ . }}]{{ end }}", "{{ range $i, $e := .words }}{{ if $i }}{{ break }}{{ end }}{{ $e }}{{ end }}",
		"{{ range .words }}{{ range .none }}{{ else }}{{ break }}{{ end }}a{{ end }}", "{{ range .words }}{{ range .none }}{{ else }}{{ continue }}{{ end }}a{{ end }}",
		"{{ range .words }}{{ with . }}{{ if true }}{{ break }}{{ end }}{{ end }}{{ end }}{{ $x := 1 }}{{ range .ints }}{{ $y := 1 }}{{ continue }}{{ end }}{{ $x }}",
		"{{ range 3 }}{{ . }}{{ end }}{{ range $i := .three }}{{ $i }}{{ end }}{{ range .zero }}a{{ else }}none{{ end }}{{ range $x := .minus }}a{{ else }}{{ $x }}{{ end }}",
		"{{ range $i, $e := 3 }}{{ end }}", "{{ range .name }}{{ . }}{{ end }}", "{{ range .nothing }}a{{ else }}none{{ end }}", "{{ range true }}{{ end }}",
		"{{ range $k, $v := .map }}{{ $k }}={{ $v }} {{ end }}{{ range .map }}{{ . }}{{ end }}", "{{ range $k, $v := .numbered }}{{ $k }}{{ $v }}{{ end }}{{ range $k, $v := .ratios }}{{ $k }}{{ $v }}{{ end }}",
		"{{ $i := 0 }}{{ $e := 0 }}{{ range $i, $e = .words }}{{ $i }}{{ $e }}{{ end }}{{ $i }}{{ $e }}", "{{ $e := 0 }}{{ range $e = .words }}{{ end }}{{ $e }}{{ range $e = .none }}{{ end }}{{ $e }}",
		"{{ range $x := .none }}{{ else }}{{ $x }}{{ end }}", "{{ with .empty }}a{{ else with .nothing }}b{{ else with $x := .three }}{{ $x }}{{ . }}{{ else }}c{{ end }}",
		"{{ if .empty }}a{{ else if .nothing }}b{{ else if $x := .three }}{{ $x }}{{ end }}", "{{ with $x := .no }}{{ else }}{{ $x }}{{ end }}",
		"{{ block \"b\" .map }}{{ .a }}{{ end }}{{ define \"c\" }}<{{ . }}>{{ end }}{{ template \"c\" .three }}{{ template \"c\" }}{{ template \"b\" .map }}", "{{ template \"none\" }}",
		"a {{- /* comment */ -}} b\n {{- .name -}} \n c", "{{ 1.0 }} {{ 1e3 }} {{ 0x1F }} {{ 0x1p4 }} {{ 'a' }} {{ 1_000 }} {{ 1.5e-2 }} {{ kindOf 1.0 }} {{ kindOf 1e3 }} {{ kindOf 0xE }} {{ kindOf 'e' }}",
		"{{ 9223372036854775808 }}", "{{ 1i }}", "{{ print 1 2 \"x\" 3 .nothing }} {{ println .name }} {{ print }}", "{{ html .text }} {{ js .text }} {{ urlquery .text }}",
		"{{ html 1 2 .nothing }} {{ js .list }} {{ urlquery .three \"a b\" }} {{ .text | html }}", "{{ slice .name 2 }} {{ slice .name 2 4 }} {{ slice .words 1 }} {{ slice .words 0 1 }} {{ slice .words 0 1 2 }} {{ slice .name }}",
		"{{ slice .name 9 2 }}", "{{ slice .name 0 99 }}", "{{ slice .name 0 1 2 }}", "{{ slice .map 1 }}", "{{ slice .nothing 1 }}", "{{ slice .words -1 }}", "{{ slice .words 0 1 2 3 }}",
		"{{ index .words 1 }} {{ index .map \"c\" \"d\" 0 }} {{ index .map \"none\" }} {{ index .numbered 10 }} {{ index .name 0 }} {{ index .words }}", "{{ index .words 9 }}", "{{ index .words \"a\" }}", "{{ index .nothing }}",
		"{{ index .map 1 }}", "{{ index .map \"none\" \"more\" }}", "{{ index .words nil }}", "{{ .missing }}", "{{ .map.missing }}", "{{ .missing.deep }}", "{{ .nothing.deep }}", "{{ (.nothing).deep }}", "{{ .name.deep }}",
		"{{ default 7 .missing }} {{ .missing | default \"x\" }} {{ .flags.none }}", "{{ .nothing }} {{ print .nothing }} {{ .nothing | quote }}", "{{ and }}", "{{ or }}", "{{ 1 | and }} {{ 0 | or 2 }} {{ 3 | and 0 }}",
		"{{ not }}", "{{ not 1 2 }}", "{{ and 0 .missing }} {{ or 1 .missing }}", "{{ call .name }}", "{{ call nil }}", "{{ call }}", "{{ len .nothing }}", "{{ len 3 }}", "{{ nil }}", "{{ nil | print }}", "{{ print nil }}", "{{ .name | .three }}", "{{ \"a\" 1 }}",
		"{{ eq .nothing nil }} {{ ne .nothing nil }} {{ eq .name nil }} {{ eq .none nil }} {{ eq .three 3 }} {{ eq .half 0.5 }} {{ eq .yes true .no }}", "{{ eq .list .list }}", "{{ eq .map .map }}", "{{ eq .list \"x\" }}", "{{ eq 1 }}",
		"{{ lt .nothing 1 }}", "{{ lt .yes .no }}", "{{ le .three 3 }} {{ gt .half 0.1 }} {{ ge \"b\" \"a\" }}", "{{ fail \"no\" }}", "{{ first .three }}", "{{ substr 5 1 .name }}", "{{ (dict \"a\" (list 1 2)).a }} {{ (list 1 2) | last }}",
		"{{ $d := dict }}{{ range .zones }}{{ $_ := set $d .name .size }}{{ end }}{{ $d }}{{ $d | toJson }}", "{{ $x := 1 }}{{ with .map }}{{ $x = 2 }}{{ $x := 3 }}{{ $x }}{{ end }}{{ $x }}", "{{ break }}", "{{ range .words }}{{ template \"x\" }}{{ define \"x\" }}{{ end }}{{ end }}",
		"{{ semver \"1.2.3-x\" }} {{ \"1.2.3\" | semverCompare \">=1.0\" }} {{ fromJson \"{\\\"a\\\":[1,2.5]}\" }} {{ toDecimal \"0755\" }} {{ tuple 1 2 }}", "{{ until (int .three) }} {{ untilStep 0 6 2 }} {{ seq 1 3 }}",
	} {
		for _, zero := range []bool{false, true} {
			compareWithStandardLibrary(t, text, zero)
		}
	}
}

// TestRandomTemplates also executes random templates with text/template.
func TestRandomTemplates(t *testing.T) {
	const templates, atLeast = 6000, 1500
	executed := 0
	for seed := range uint64(templates) {
		g := &generator{rand: rand.New(rand.NewPCG(seed, 0))}
		if compareWithStandardLibrary(t, g.list(2), seed%2 == 0) {
			executed++
		}
		if t.Failed() {
			t.Fatalf("the template of seed %d", seed)
		}
	}
	if executed < atLeast {
		t.Errorf("text/template executed %d of %d templates: most of them are wrong", executed, templates)
	}
}

// generator writes templates that are mostly valid.
type generator struct {
	rand *rand.Rand
	vars []string
	// loops counts the enclosing ranges.
	loops int
}

func (g *generator) one(of ...string) string { return of[g.rand.IntN(len(of))] }

// action writes an action, sometimes with trim markers.
func (g *generator) action(format string, args ...any) string {
	return g.one("{{ ", "{{ ", "{{ ", "{{- ") + fmt.Sprintf(format, args...) + g.one(" }}", " }}", " }}", " -}}")
}

// list writes a list of nodes, nested down to a depth.
func (g *generator) list(depth int) string {
	defer func(vars []string) { g.vars = vars }(slices.Clone(g.vars))
	var b strings.Builder
	for range 1 + g.rand.IntN(2) {
		b.WriteString(g.node(depth))
	}
	return b.String()
}

func (g *generator) node(depth int) string {
	kind := g.rand.IntN(12)
	if depth == 0 {
		kind = g.rand.IntN(5)
	}
	switch kind {
	case 0:
		return g.one(" text ", "\n", "a:\n  b", "/* no comment */", "{ }")
	case 1:
		v := fmt.Sprintf("$v%d", g.rand.IntN(3))
		text := g.action("%s := %s", v, g.pipeline(2))
		g.vars = append(g.vars, v)
		return text
	case 2:
		if len(g.vars) > 0 {
			return g.action("%s = %s", g.one(g.vars...), g.pipeline(2))
		}
		return g.action("/* comment */")
	case 3, 4, 5:
		return g.action("%s", g.pipeline(3))
	case 6:
		return g.action("if %s", g.pipeline(2)) + g.list(depth-1) + g.orElse(depth, "if") + g.end()
	case 7:
		return g.action("with %s", g.pipeline(2)) + g.list(depth-1) + g.orElse(depth, "with") + g.end()
	case 8:
		name := g.one("d", "e", "f")
		return "{{ template \"" + name + "\" " + g.operand(1) + " }}" + "{{ define \"" + name + fmt.Sprint(g.rand.IntN(9999)) + "\" }}" + g.end()
	case 9:
		if g.loops > 0 {
			return g.action("if %s", g.pipeline(1)) + "{{ " + g.one("break", "continue") + " }}" + g.end()
		}
		return "{{ block \"b" + fmt.Sprint(g.rand.IntN(9999)) + "\" " + g.operand(1) + " }}{{ . }}" + g.end()
	}
	return g.loop(depth)
}

func (g *generator) end() string { return g.action("end") }

func (g *generator) orElse(depth int, word string) string {
	switch g.rand.IntN(4) {
	case 0:
		return g.action("else") + g.list(depth-1)
	case 1:
		return g.action("else %s %s", word, g.pipeline(1)) + g.list(depth-1) + g.action("else") + g.list(depth-1)
	}
	return ""
}

func (g *generator) loop(depth int) string {
	defer func(vars []string) { g.vars = vars }(slices.Clone(g.vars))
	over := g.one(".list", ".words", ".ints", ".none", ".zones", ".map", ".numbered", ".three", ".", "$.zones", "$.map", "(until 3)", "(list 1 2)", g.pipeline(1))
	declaration := ""
	switch g.rand.IntN(5) {
	case 0:
		declaration = "$i, $e := "
		g.vars = append(g.vars, "$i", "$e")
	case 1:
		declaration = "$e := "
		g.vars = append(g.vars, "$e")
	case 2:
		if len(g.vars) > 0 {
			declaration = g.one(g.vars...) + " = "
		}
	}
	g.loops++
	text := g.action("range %s%s", declaration, over) + g.list(depth-1)
	g.loops--
	if g.rand.IntN(4) == 0 {
		text += g.action("else") + g.list(depth-1)
	}
	return text + g.end()
}

// pipeline writes commands, each of which receives the value of the previous one.
func (g *generator) pipeline(depth int) string {
	text := g.command(depth)
	for g.rand.IntN(3) == 0 {
		text += " | " + g.one("quote", "len", "not", "print", "printf \"%v\"", "default \"d\"", "html", "js", "urlquery", "toString", "upper", "trim", "indent 2", "nindent 2", "toJson",
			"squote", "kindOf", "typeOf", "list", "first", "last", "uniq", "join \"-\"", "add 1", "mul 2", "int", "int64", "float64", "b64enc", "sha256sum", "eq 1", "and 1", "or 0", "contains \"a\"", "hasPrefix \"a\"",
			"replace \"a\" \"b\"", "splitList \".\"", "trunc 3", "ternary 1 2", "has 2", "index .words", "slice .name", "atoi", "has \"x\"", "sortAlpha", "regexFind \"[a-z]+\"", "toStrings", "without 2", "compact", "reverse", "rest")
	}
	return text
}

func (g *generator) command(depth int) string {
	if depth == 0 || g.rand.IntN(3) == 0 {
		return g.operand(depth)
	}
	a := func() string { return g.operand(depth - 1) }
	switch g.rand.IntN(10) {
	case 0:
		return g.one("eq ", "ne ", "lt ", "le ", "gt ", "ge ", "and ", "or ", "default ", "coalesce ", "list ", "print ", "index ") + a() + " " + a()
	case 1:
		return "printf " + g.one(`"%v-%v"`, `"%s%d"`, `"%q %T"`) + " " + a() + " " + a()
	case 2:
		return "index " + g.one(".list", ".words", ".map", ".zones", ".numbered", ".name") + " " + g.one("0", "1", `"a"`, `"c"`, `"none"`, "10", a())
	case 3:
		return g.one("dict \"a\" ", "dict \"k\" 1 \"a\" ", "tuple 1 ", "ternary 1 ", "cat 1 ") + a() + " " + a()
	case 4:
		return g.one("pick .map \"a\"", "omit .map \"a\"", "merge (dict) .map .hollow", "hasKey .map \"a\"", "get .map \"b\"", "set .map \"z\" 1", "unset .map \"a\"", "keys .map | sortAlpha", "dig \"c\" \"d\" 1 .map", "pluck \"name\" .hollow .map", "deepCopy .map")
	case 5:
		return g.one("add ", "sub ", "mul ", "max ", "min ", "mod 7 ", "div 7 ", "append .list ", "prepend .list ", "concat .list ", "has ", "kindIs \"string\" ", "round 1.255 ", "floor ") + a()
	case 6:
		return g.one("until 3", "untilStep 1 9 3", "seq 1 3", "semver \"1.2.3\"", "semverCompare \">1.0\" \"1.2\"", "fromJson \"[1,2]\"", "substr 1 3 .name", "slice .words 1 2", "repeat 2 .name", "abbrev 5 .name", "wrap 4 .name", "regexReplaceAll \"a\" .name \"b\"", "split \".\" .name")
	case 7:
		return "not " + a()
	case 8:
		return "len " + a()
	}
	return g.one("quote ", "upper ", "title ", "trim ", "toString ", "empty ", "kindOf ", "html ", "first ", "last ", "initial ", "rest ", "uniq ", "compact ", "reverse ", "int ", "float64 ", "b64enc ") + a()
}

func (g *generator) operand(depth int) string {
	if depth > 0 && g.rand.IntN(3) == 0 {
		return "(" + g.pipeline(depth-1) + ")" + g.one("", "", "", "", ".a", ".name")
	}
	if len(g.vars) > 0 && g.rand.IntN(3) == 0 {
		return g.one(g.vars...) + g.one("", "", "", ".a", ".name")
	}
	return g.one(".", "$", "$.name", "$.map.a", ".name", ".empty", ".text", ".yes", ".no", ".nothing", ".zero", ".three", ".minus", ".half", ".float", ".big", ".list", ".words", ".ints", ".none", ".zones", ".map",
		".map.c.d", ".map.none", ".none.deep", ".missing", ".hollow", ".numbered", ".flags.a", ".flags.none", "nil", "true", "false", "0", "1", "2", "-1", "1.5", "1.0", "1e2", "'x'", "0x1F", `"text"`, "`raw`", `""`, `"a"`, `"c"`)
}
