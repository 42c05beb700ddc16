package compat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"kops.local/kops/internal/spec/diag"
)

// maxValues limits the number of values in one file, so that a few aliases of aliases
// cannot exhaust the memory. The largest real files have some ten thousand.
const maxValues = 250_000

// maxDepth limits how deeply lists and maps are nested. CRD schemas, the deepest of
// real files, have some forty levels.
const maxDepth = 100

// form is the syntactic form of a value in a document.
type form string

const (
	formNull   form = "nothing"
	formBool   form = "a boolean"
	formInt    form = "a number"
	formFloat  form = "a fraction"
	formString form = "a string"
	formList   form = "a list"
	formMap    form = "a map"
)

// value is a part of a document with its position.
type value struct {
	form form
	text string // of a scalar, as it was written
	norm string // of a boolean or a number, as JSON writes it
	line int
	list []*value
	keys []entry // of a map, in the order of the document
}

// entry is one key of a map and its value.
type entry struct {
	key   string
	line  int
	value *value
}

// describe describes the form in words. A number without a fraction is a whole number, even
// one that is too large to be represented exactly.
func (v *value) describe() form {
	if v.form == formFloat && digits.MatchString(v.text) {
		return formInt
	}
	return v.form
}

// get returns the value of a key, or nil.
func (v *value) get(key string) *value {
	if v == nil {
		return nil
	}
	for _, e := range v.keys {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

// str returns the text of a key's value, or "" if there is no such key.
func (v *value) str(key string) string {
	if e := v.get(key); e != nil && e.form == formString {
		return e.text
	}
	return ""
}

// objectName returns the name of a document's object in findings: Cluster/a.example.com.
func objectName(v *value) string {
	kind, name := v.str("kind"), v.get("metadata").str("name")
	if name == "" {
		return kind
	}
	return kind + "/" + name
}

// reader turns YAML into values.
type reader struct {
	file     string
	lenient  bool
	count    int
	depth    int          // of the value being read
	deep     bool         // whether excessive nesting has already been reported
	open     []*yaml.Node // anchors being expanded
	findings diag.List
}

// documents returns the non-empty documents of a file. Text that is not YAML stops the
// reading with a finding.
func (r *reader) documents(data []byte) []*value {
	var docs []*value
	d := yaml.NewDecoder(bytes.NewReader(plainJSON(data)))
	for {
		var n yaml.Node
		err := d.Decode(&n)
		if errors.Is(err, io.EOF) {
			return docs
		}
		if err != nil {
			r.findings = append(r.findings, syntaxFinding(r.file, data, err))
			return docs
		}
		first := len(r.findings)
		v := r.value(&n, "")
		name := objectName(v)
		for i := range r.findings[first:] {
			r.findings[first+i].Object = name
		}
		if v.form != formNull {
			docs = append(docs, v)
		}
	}
}

// yamlLine finds the line number in an error of the YAML library, which only has it in its text.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// unknownAnchor is the error of an alias without an anchor.
var unknownAnchor = regexp.MustCompile(`unknown anchor '(.*)' referenced`)

// syntaxFinding reports the line at which a text is no longer valid YAML.
func syntaxFinding(file string, data []byte, err error) diag.Finding {
	f := diag.Finding{File: file, Rule: "syntax", Message: "is not YAML: " + err.Error()}
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		return f
	}
	f.Message = "is not YAML: " + m[2]
	if f.Line, _ = strconv.Atoi(m[1]); f.Line == 0 { // no number
		f.Line = 1 + bytes.Count(data[:errorLine(data, m[2])], []byte("\n"))
	}
	for i, line := range strings.Split(string(data), "\n") {
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if near := i + 1 - f.Line; near >= 0 && near <= 1 && strings.Contains(indent, "\t") {
			f.Remedy = "indent with spaces, not with tabs"
		}
	}
	return f
}

// errorLine finds the line of an error that the YAML library reports without one:
// an alias, a character, or otherwise something in the first line.
func errorLine(data []byte, message string) int {
	if m := unknownAnchor.FindStringSubmatch(message); m != nil {
		return max(0, bytes.Index(data, []byte("*"+m[1])))
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size <= 1 || unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r) {
			return i
		}
		i += size
	}
	return 0
}

// value converts a node and its children; path is for findings.
func (r *reader) value(n *yaml.Node, path string) *value {
	if r.count++; r.count > maxValues {
		if r.count == maxValues+1 {
			r.add(n.Line, path, "size", "file holds more than "+strconv.Itoa(maxValues)+" values")
		}
		return &value{form: formNull, line: n.Line}
	}
	if r.depth++; r.depth > maxDepth {
		if !r.deep {
			r.add(n.Line, path, "depth", "is more than "+strconv.Itoa(maxDepth)+" lists and maps deep")
		}
		r.depth, r.deep = r.depth-1, true
		return &value{form: formNull, line: n.Line}
	}
	defer func() { r.depth-- }()
	v := &value{line: n.Line}
	switch n.Kind {
	case yaml.DocumentNode:
		return r.value(n.Content[0], path)
	case yaml.AliasNode:
		return r.alias(n, path)
	case yaml.SequenceNode:
		v.form = formList
		for i, item := range n.Content {
			v.list = append(v.list, r.value(item, fmt.Sprintf("%s[%d]", path, i)))
		}
	case yaml.MappingNode:
		v.form = formMap
		r.entries(v, n, path)
	case yaml.ScalarNode:
		r.scalar(v, n, path)
	default:
		v.form = formNull // an empty document has a node of no kind
	}
	return v
}

// alias expands an alias in place.
func (r *reader) alias(n *yaml.Node, path string) *value {
	if slices.Contains(r.open, n.Alias) {
		r.add(n.Line, path, "alias", "anchor &"+n.Value+" contains itself")
		return &value{form: formNull, line: n.Line}
	}
	r.open = append(r.open, n.Alias)
	v := *r.value(n.Alias, path)
	r.open = r.open[:len(r.open)-1]
	v.line = n.Line
	return &v
}

// entries fills a map. A key that is set in the map itself overrides a merged one (<<).
// A quoted << merges as well: once written, it cannot be distinguished from an unquoted one.
func (r *reader) entries(v *value, n *yaml.Node, path string) {
	seen, at := map[string]int{}, map[string]int{} // the line of a key, and its index in v.keys
	dropped := false
	var merged []*value
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode {
			r.add(k.Line, path, "key", "key must be a string, not a list or a map")
			continue
		}
		child := r.value(n.Content[i+1], join(path, k.Value))
		if k.Value == "<<" {
			merged = append(merged, child)
			continue
		}
		if first, twice := seen[k.Value]; twice {
			r.addDuplicate(k.Line, join(path, k.Value), first)
			v.keys[at[k.Value]].value, dropped = nil, true
		}
		seen[k.Value], at[k.Value] = k.Line, len(v.keys)
		v.keys = append(v.keys, entry{k.Value, k.Line, child})
	}
	if dropped {
		v.keys = slices.DeleteFunc(v.keys, func(e entry) bool { return e.value == nil })
	}
	for _, m := range merged {
		r.merge(v, m, seen, path)
	}
}

// merge adds the entries that v does not have from a merged map, or a list of such maps.
func (r *reader) merge(v, m *value, seen map[string]int, path string) {
	switch m.form {
	case formMap:
		for _, e := range m.keys {
			if _, ok := seen[e.key]; !ok {
				seen[e.key] = e.line
				v.keys = append(v.keys, e)
			}
		}
	case formList:
		for _, item := range m.list {
			r.merge(v, item, seen, path)
		}
	default:
		r.add(m.line, join(path, "<<"), "merge", "must be a map to merge, not "+string(m.form))
	}
}

// scalar reads a scalar by the rules of YAML 1.1, as kOps and kubectl do: an unquoted
// yes, no, on or off is a boolean.
func (r *reader) scalar(v *value, n *yaml.Node, path string) {
	v.text, v.form = n.Value, formString
	switch tag := n.ShortTag(); tag {
	case "!!null":
		v.form = formNull
	case "!!bool":
		v.form, v.norm = formBool, strings.ToLower(n.Value)
	case "!!int":
		r.number(v, n, path)
	case "!!float":
		v.form = formFloat
		if f, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64); err != nil {
			r.add(n.Line, path, "number", "must be a finite number, not "+n.Value)
			v.form = formNull
		} else {
			v.norm = strconv.FormatFloat(f, 'g', -1, 64)
		}
	case "!!str", "!!timestamp":
		if b, ok := oldBool[n.Value]; ok && n.Style == 0 && tag == "!!str" {
			v.form, v.norm = formBool, b
		}
	default:
		r.add(n.Line, path, "tag", "YAML tag "+tag+" is not supported")
	}
}

// oldBool are the words that are booleans in YAML 1.1 only.
var oldBool = map[string]string{
	"y": "true", "Y": "true", "yes": "true", "Yes": "true", "YES": "true", "on": "true", "On": "true", "ON": "true",
	"n": "false", "N": "false", "no": "false", "No": "false", "NO": "false", "off": "false", "Off": "false", "OFF": "false",
}

// number writes a whole number in decimal; a number that does not fit in 64 bits is a fraction.
func (r *reader) number(v *value, n *yaml.Node, path string) {
	v.form = formInt
	var i int64
	var u uint64
	var f float64
	switch {
	case n.Decode(&i) == nil:
		v.norm = strconv.FormatInt(i, 10)
	case n.Decode(&u) == nil:
		v.norm = strconv.FormatUint(u, 10)
	case n.Decode(&f) == nil:
		v.form, v.norm = formFloat, strconv.FormatFloat(f, 'g', -1, 64)
	default:
		r.add(n.Line, path, "number", "must be a number, not "+n.Value)
		v.form = formNull
	}
}

// add records a finding.
func (r *reader) add(line int, path, rule, message string) {
	r.findings = append(r.findings, diag.Finding{File: r.file, Line: line, Path: path, Rule: rule, Message: message})
}

// addDuplicate records a duplicate key in a map; in lenient mode the last one wins.
func (r *reader) addDuplicate(line int, path string, first int) {
	r.findings = append(r.findings, diag.Finding{
		File: r.file, Line: line, Path: path, Rule: "duplicate-key", Warning: r.lenient,
		Message: fmt.Sprintf("is given twice, first on line %d", first),
		Remedy:  "keep one of the two",
	})
}

// plainKey matches a key that needs no brackets in a path.
var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// join appends a key to a path: spec.nodeLabels, then spec.nodeLabels[a.b/c].
func join(path, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// surrogates matches a character above U+FFFF as JSON escapes it, which YAML cannot read,
// or any other escape.
var surrogates = regexp.MustCompile(`\\[^u]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)

// plainJSON makes JSON readable as YAML, and leaves everything else unchanged. In JSON a
// tab can only be white space.
func plainJSON(data []byte) []byte {
	if text := bytes.TrimSpace(data); len(text) == 0 || !bytes.ContainsRune([]byte("{["), rune(text[0])) || !json.Valid(data) {
		return data
	}
	data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	return surrogates.ReplaceAllFunc(data, func(b []byte) []byte {
		if len(b) == 2 {
			return b
		}
		hi, _ := strconv.ParseUint(string(b[2:6]), 16, 16)  // the pattern has four
		lo, _ := strconv.ParseUint(string(b[8:12]), 16, 16) // hexadecimal digits
		return []byte(string(utf16.DecodeRune(rune(hi), rune(lo))))
	})
}
