package compat

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/diag"
)

// UnknownField is the rule of the finding that a field is unknown.
const UnknownField = "unknown-field"

// checker checks one document against the schema of its version, and builds a plain
// document of its valid parts.
type checker struct {
	file, object string
	root         string // path of the object in its document: "", or items[0]
	version      string
	lenient      bool
	exact        bool
	cloud        api.CloudProviderID // of a Cluster of v1alpha2
	calls        map[string]string   // names of fields in this version, by path in the other
	top          *schema             // of the object
	knownFields  []place             // the fields of the object, see places
	findings     diag.List
}

// build returns the value as JSON represents it: map[string]any, []any, string, bool or
// json.Number. Invalid parts are omitted, with a finding.
func (c *checker) build(v *value, s *schema, path string) any {
	switch {
	case v.form == formNull:
		return nil
	case s.sort == sortAny:
		return natural(v)
	case s.sort == sortObject && v.form == formMap:
		return c.fields(v, s, path)
	case s.sort == sortMap && v.form == formMap:
		out := map[string]any{}
		for _, e := range v.keys {
			out[e.key] = c.item(e.value, s.elem, join(path, e.key))
		}
		return out
	case s.sort == sortList && v.form == formList:
		out := []any{}
		for i, item := range v.list {
			out = append(out, c.item(item, s.elem, fmt.Sprintf("%s[%d]", path, i)))
		}
		return out
	case v.form == formMap, v.form == formList, s.sort == sortObject, s.sort == sortMap, s.sort == sortList:
		return c.recordWrongType(v, s, path)
	}
	return c.scalar(v, s, path)
}

// item builds an item of a list or a map. An empty one is the empty string where a
// string is allowed, and otherwise a mistake.
func (c *checker) item(v *value, s *schema, path string) any {
	if v.form == formNull && s.sort == sortString {
		return ""
	}
	if v.form == formNull && s.sort != sortAny {
		return c.recordWrongType(v, s, path)
	}
	return c.build(v, s, path)
}

// fields builds a map with known fields.
func (c *checker) fields(v *value, s *schema, path string) any {
	out := map[string]any{}
	for _, e := range v.keys {
		f, at := s.fields[e.key], join(path, e.key)
		switch {
		case f == nil:
			c.unknown(e, s, at)
		case f.retired != nil:
			c.retired(e, f.retired, at)
		case f.cloud != "" && f.cloud != c.cloud && e.value.form != formNull:
			c.otherCloud(e, f.cloud, at)
		default:
			if built := c.build(e.value, f, at); !empty(built, f) {
				out[e.key] = built
			}
		}
	}
	return out
}

// empty reports whether a value is equivalent to a missing one: null, or an empty list or map.
// An empty block of known fields does have a meaning, such as kubenet: {}.
func empty(built any, s *schema) bool {
	switch built := built.(type) {
	case nil:
		return true
	case []any:
		return len(built) == 0
	case map[string]any:
		return len(built) == 0 && s.sort == sortMap
	}
	return false
}

// scalar builds a scalar where the schema requires one.
func (c *checker) scalar(v *value, s *schema, path string) any {
	isText := v.form == formString
	isNumber := v.form == formInt || v.form == formFloat
	switch s.sort {
	case sortString:
		if isText {
			return c.text(v, s, path)
		}
	case sortBool:
		if v.form == formBool {
			return v.norm == "true"
		}
	case sortInt:
		if isNumber {
			return c.whole(v, s, path)
		}
	case sortFloat:
		if isNumber {
			return json.Number(v.norm)
		}
	case sortIntOrString:
		if isText {
			return v.text
		}
		if v.form == formInt {
			return c.whole(v, &schema{sort: sortInt, bits: 32}, path)
		}
	case sortQuantity:
		if isNumber {
			return c.parsed(v, s, path, v.norm, quantityError(v.norm))
		}
		if isText {
			return c.parsed(v, s, path, v.text, quantityError(v.text))
		}
	case sortDuration:
		if isText {
			_, err := time.ParseDuration(v.text)
			return c.parsed(v, s, path, v.text, err)
		}
	case sortTime:
		if isText {
			_, err := time.Parse(time.RFC3339, v.text)
			return c.parsed(v, s, path, v.text, err)
		}
	case sortBytes:
		if isText {
			_, err := base64.StdEncoding.DecodeString(v.text)
			return c.parsed(v, s, path, v.text, err)
		}
	}
	return c.recordWrongType(v, s, path)
}

// text builds a string, which must be an allowed value if there is an enumeration.
func (c *checker) text(v *value, s *schema, path string) any {
	if len(s.enum) > 0 && v.text != "" && !slices.Contains(s.enum, v.text) {
		remedy := "possible values: " + strings.Join(s.enum, ", ")
		if near := diag.Nearest(v.text, s.enum); near != "" {
			remedy = "did you mean " + near + "? " + remedy
		}
		c.add(v, s, path, "enum", "unknown value", remedy)
		return nil
	}
	if s.check != nil {
		if message := s.check(v.text); message != "" {
			c.add(v, s, path, "syntax", message, "")
			return nil
		}
	}
	return v.text
}

// whole builds a whole number, which may also be written 3.0 or 1e3.
func (c *checker) whole(v *value, s *schema, path string) any {
	if f, err := strconv.ParseFloat(v.norm, 64); err == nil && v.form == formFloat && f == float64(int64(f)) {
		v = &value{form: formInt, text: v.text, norm: strconv.FormatInt(int64(f), 10), line: v.line}
	}
	if v.form == formFloat && !digits.MatchString(v.text) {
		return c.recordWrongType(v, s, path)
	}
	if s.unsigned {
		if _, err := strconv.ParseUint(v.norm, 10, s.bits); err != nil {
			c.add(v, s, path, "range", fmt.Sprintf("must be between 0 and %d", uint64(1)<<s.bits-1), "")
			return nil
		}
	} else if _, err := strconv.ParseInt(v.norm, 10, s.bits); err != nil {
		top := uint64(1)<<(s.bits-1) - 1
		c.add(v, s, path, "range", fmt.Sprintf("must be between -%d and %d", top+1, top), "")
		return nil
	}
	return json.Number(v.norm)
}

// parsed returns the text if its type could parse it, that is, if err is nil.
func (c *checker) parsed(v *value, s *schema, path, text string, err error) any {
	if err != nil {
		c.add(v, s, path, "syntax", "must be "+s.sort.String(), "")
		return nil
	}
	return text
}

// longExponent matches a number that would have more digits than any quantity.
var longExponent = regexp.MustCompile(`[eE][+-]?\d{4,}$`)

// quantityError returns an error if a text is not a quantity.
func quantityError(text string) error {
	if longExponent.MatchString(text) {
		return resource.ErrFormatWrong
	}
	_, err := resource.ParseQuantity(text)
	return err
}

// unknownBlock records the fields of a map that only the other version has, if this
// version has a name for one of them.
func (c *checker) unknownBlock(e entry, path string) bool {
	known := slices.ContainsFunc(e.value.keys, func(inner entry) bool { return c.otherName(join(path, inner.key)) != "" })
	if known {
		for _, inner := range e.value.keys {
			c.unknown(inner, &schema{}, join(path, inner.key))
		}
	}
	return known
}

// unknown records a field that the schema does not have.
func (c *checker) unknown(e entry, s *schema, path string) {
	if c.otherName(path) == "" && c.unknownBlock(e, path) {
		return
	}
	remedy := ""
	if here := c.otherName(path); here != "" {
		remedy = c.version + " calls it " + here
	} else {
		remedy = c.hint(e.key, path, s)
	}
	c.findings = append(c.findings, diag.Finding{
		File: c.file, Line: e.line, Object: c.object, Path: path,
		Rule: UnknownField, Message: "unknown field", Remedy: remedy, Warning: c.lenient,
	})
}

// indexes matches the indices of list items in a path.
var indexes = regexp.MustCompile(`\[\d+\]`)

// otherName returns this version's name of the field that the other version has at the
// path, or "".
func (c *checker) otherName(path string) string {
	if c.root != "" {
		path = strings.TrimPrefix(path, c.root+".")
	}
	here := c.calls[indexes.ReplaceAllString(path, "[]")]
	for _, index := range indexes.FindAllString(path, -1) {
		here = strings.Replace(here, "[]", index, 1)
	}
	return here
}

// retired records a field that is no longer read.
func (c *checker) retired(e entry, r *retirement, path string) {
	if e.value.form == formNull || slices.Contains(r.silent, cmp.Or(e.value.norm, e.value.text)) {
		return
	}
	if c.unknownBlock(e, path) {
		return
	}
	f := diag.Finding{
		File: c.file, Line: e.line, Object: c.object, Path: path, Value: display(e.value),
		Rule: "no-effect", Message: "no longer has an effect", Remedy: r.remedy, Warning: !c.exact,
	}
	if f.Warning {
		f.Message += " and is dropped"
	}
	if r.refused {
		f.Rule, f.Message, f.Warning = "no-longer-supported", "is no longer supported", c.lenient
	}
	c.findings = append(c.findings, f)
}

// otherCloud records a field of a cloud that the cluster is not on. kOps accepts and
// drops such fields, so stored specs contain them; it refuses AWS' cloudConfig.
func (c *checker) otherCloud(e entry, want api.CloudProviderID, path string) {
	refused := want == api.CloudAWS && strings.Contains(path, "spec.cloudConfig.")
	have := "none of them is set"
	if c.cloud != "" {
		have = "the cluster is on " + string(c.cloud)
	}
	c.findings = append(c.findings, diag.Finding{
		File: c.file, Line: e.line, Object: c.object, Path: path, Rule: "other-cloud", Warning: c.lenient || !c.exact && !refused,
		Message: fmt.Sprintf("is for cloudProvider %s only, and %s", want, have), Remedy: "remove it",
	})
	if f := &c.findings[len(c.findings)-1]; f.Warning {
		f.Message += ", so it has no effect and is dropped"
	}
}

// digits matches a whole number.
var digits = regexp.MustCompile(`^-?\d+$`)

// oneCloud records a Cluster of v1alpha3 that names several clouds.
func (c *checker) oneCloud(v *value, path string) {
	if v == nil || v.form != formMap {
		return
	}
	var names []string
	for _, e := range v.keys {
		if e.value.form != formNull {
			names = append(names, e.key)
		}
	}
	if len(names) > 1 {
		c.findings = append(c.findings, diag.Finding{
			File: c.file, Line: v.line, Object: c.object, Path: path, Rule: "several-clouds",
			Message: "names several clouds: " + strings.Join(names, ", "), Remedy: "keep one",
		})
	}
}

// recordWrongType records a value of the wrong type.
func (c *checker) recordWrongType(v *value, s *schema, path string) any {
	remedy := ""
	switch {
	case s.sort == sortString && (v.form == formBool || v.form == formInt || v.form == formFloat):
		remedy = "put it in quotes"
	case v.form == formString && (s.sort == sortBool && (v.text == "true" || v.text == "false") || s.sort == sortInt && digits.MatchString(v.text)):
		remedy = "write it without quotes"
	case s.sort == sortObject && s.fields[v.text] != nil:
		remedy = "write " + v.text + " as a key under it"
	case s.sort == sortList && v.form != formNull:
		remedy = "write each item on a line of its own after a dash"
	case s.sort == sortDuration && v.form == formInt:
		remedy = "add a unit, such as " + v.text + "s"
	}
	c.add(v, s, path, "type", fmt.Sprintf("must be %s, not %s", s.sort, v.describe()), remedy)
	return nil
}

// add records a finding about a value. It does not show keys (base64): they may be secret.
func (c *checker) add(v *value, s *schema, path, rule, message, remedy string) {
	f := diag.Finding{
		File: c.file, Line: v.line, Object: c.object, Path: path,
		Rule: rule, Message: message, Remedy: remedy,
	}
	if s.sort != sortBytes {
		f.Value = display(v)
	}
	c.findings = append(c.findings, f)
}

// display returns the part of a value that a message shows.
func display(v *value) string {
	const most = 60
	line, _, more := strings.Cut(v.text, "\n")
	if r := []rune(line); len(r) > most {
		line, more = string(r[:most]), true
	}
	if more {
		line += "…"
	}
	return line
}

// natural returns a value in the type of its form.
func natural(v *value) any {
	switch v.form {
	case formBool:
		return v.norm == "true"
	case formInt, formFloat:
		return json.Number(v.norm)
	case formString:
		return v.text
	case formList:
		out := []any{}
		for _, item := range v.list {
			out = append(out, natural(item))
		}
		return out
	case formMap:
		out := map[string]any{}
		for _, e := range v.keys {
			out[e.key] = natural(e.value)
		}
		return out
	}
	return nil
}
