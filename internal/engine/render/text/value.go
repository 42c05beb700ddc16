package text

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"kops.local/kops/internal/engine/resource"
)

// leafValue returns the value at a leaf's path; it is invalid if the object has none.
func leafValue(obj any, path string) reflect.Value {
	v := reflect.ValueOf(obj)
	for path != "" && v.IsValid() {
		for v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if key, ok := strings.CutPrefix(path, "["); ok {
			quoted, err := strconv.QuotedPrefix(key)
			if err != nil || v.Kind() != reflect.Map {
				return reflect.Value{}
			}
			name, _ := strconv.Unquote(quoted) // QuotedPrefix has checked it
			v = v.MapIndex(reflect.ValueOf(name).Convert(v.Type().Key()))
			path = strings.TrimPrefix(key[len(quoted):], "]")
			continue
		}
		path = strings.TrimPrefix(path, ".")
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		if v.Kind() != reflect.Struct {
			return reflect.Value{}
		}
		v, path = v.FieldByName(path[:end]), path[end:]
	}
	return v
}

func isContent(v reflect.Value) bool {
	return v.IsValid() && v.Type() == reflect.TypeFor[resource.Content]()
}

// isKnown reports whether the value at a leaf has no references.
func isKnown(v reflect.Value) bool {
	if !v.IsValid() {
		return true
	}
	if x, ok := v.Interface().(resource.Value); ok {
		_, known := x.Known()
		return known
	}
	return true
}

// readableText returns the text of a content that may be shown.
func readableText(v reflect.Value) (string, bool) {
	if !isContent(v) {
		return "", false
	}
	c := v.Interface().(resource.Content)
	text, known := c.Value().Known()
	if !c.Shown() || !known {
		return "", false
	}
	whole, _ := resource.Text(c.Value()).Digest()
	have, _ := c.Digest()
	return text, whole == have // a content known by its digest has no text
}

// longLine is the length, in bytes, from which a JSON text is shown over several lines.
const longLine = 80

// indentJSON spreads a long JSON object or list over several lines; other texts are unchanged.
func indentJSON(s string) string {
	var b bytes.Buffer
	if len(s) < longLine || !strings.HasPrefix(s, "{") && !strings.HasPrefix(s, "[") || json.Indent(&b, []byte(s), "", "  ") != nil {
		return s
	}
	return b.String()
}
