// Package takeover has the objects of kOps' add-ons, as a cluster that kOps manages runs them: what
// an add-on meets when kops takes a cluster over.
//
// They come from a table of paths and values by scenario. Texts of several lines are not in it, nor
// the schemas of custom resources. It must not know what is done with the objects.
package takeover

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// table has the columns add-on, object, path, value, and where: "always", the scenarios, or "but"
// and the scenarios in which the row does not hold.
//
//go:embed testdata/objects.tsv.gz
var table []byte

// Row is a value of an object.
type Row struct {
	// Addon is the name of the add-on's file.
	Addon string
	// Object is KIND/NAMESPACE/NAME, or KIND/NAME.
	Object string
	// Path has the keys, joined by dots. An item of a list is [NAME], or [] if it has no name.
	Path, Value string

	where []string
}

// Rows returns the table.
func Rows(t testing.TB) []Row {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(table))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	var out []Row
	for line := range strings.Lines(string(text)) {
		c := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(c) != 5 {
			t.Fatalf("the line %q has not five columns", line)
		}
		if len(out) > 0 || c[0] != "addon" { // which is the heading
			out = append(out, Row{c[0], c[1], c[2], c[3], strings.Fields(c[4])})
		}
	}
	return out
}

// Holds reports whether a row holds in a scenario.
func (r Row) Holds(scenario string) bool {
	switch r.where[0] {
	case "always":
		return true
	case "but":
		return !slices.Contains(r.where, scenario)
	}
	return slices.Contains(r.where, scenario)
}

// Objects returns the objects of an add-on in a scenario, in which the cluster has a name.
func Objects(t testing.TB, rows []Row, addon, scenario, cluster string) []map[string]any {
	t.Helper()
	var out []map[string]any
	place := map[string]int{}
	for _, r := range rows {
		if r.Addon != addon || !r.Holds(scenario) {
			continue
		}
		i, ok := place[r.Object]
		if !ok {
			i = len(out)
			out, place[r.Object] = append(out, identified(r.Object)), i
		}
		o := out[i]
		set(o, keys(o["kind"].(string), r.Path), strings.ReplaceAll(r.Value, "<c>", cluster))
	}
	for i, o := range out {
		out[i] = typed(o)
	}
	return out
}

func identified(object string) map[string]any {
	parts := strings.Split(object, "/")
	metadata := map[string]any{"name": parts[len(parts)-1]}
	if len(parts) == 3 {
		metadata["namespace"] = parts[1]
	}
	return map[string]any{"kind": parts[0], "metadata": metadata}
}

// keys splits a path. The keys of labels and the like have dots themselves.
func keys(kind, path string) []string {
	var out []string
	for path != "" {
		var key string
		if end := strings.Index(path, "]"); path[0] == '[' && end > 0 {
			key, path = path[:end+1], strings.TrimPrefix(path[end+1:], ".")
		} else {
			key, path, _ = strings.Cut(path, ".")
		}
		out = append(out, key)
		if isMap := slices.Contains([]string{"labels", "annotations", "matchLabels", "nodeSelector", "data", "stringData", "requests", "limits", "parameters", "tags"}, key) ||
			kind == "Service" && key == "selector"; isMap && path != "" && path[0] != '[' {
			return append(out, path)
		}
	}
	return out
}

// set sets a value in an object, or in an item of a list.
func set(in map[string]any, path []string, value string) {
	key := path[0]
	if len(path) == 1 {
		in[key] = leaf(value)
		return
	}
	if path[1][0] != '[' {
		next, ok := in[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			in[key] = next
		}
		set(next, path[1:], value)
		return
	}
	list, _ := in[key].([]any)
	name := strings.Trim(path[1], "[]")
	if name == "" {
		in[key] = append(list, leaf(value))
		return
	}
	i := slices.IndexFunc(list, func(item any) bool { m, _ := item.(map[string]any); return m["name"] == name })
	if i < 0 {
		i, list = len(list), append(list, map[string]any{"name": name})
		in[key] = list
	}
	if len(path) > 2 {
		set(list[i].(map[string]any), path[2:], value)
	}
}

// leaf returns a value, which is JSON if it is an object.
func leaf(value string) any {
	if strings.HasPrefix(value, "{") {
		var out map[string]any
		if json.Unmarshal([]byte(value), &out) == nil {
			return out
		}
	}
	return value
}

// typed converts the texts of an object to the types of its fields.
func typed(o map[string]any) map[string]any {
	gv, _ := schema.ParseGroupVersion(fmt.Sprint(o["apiVersion"]))
	known, err := scheme.Scheme.New(gv.WithKind(fmt.Sprint(o["kind"])))
	if err != nil {
		return guess(o, false).(map[string]any)
	}
	return as(reflect.TypeOf(known).Elem(), o).(map[string]any)
}

var number = regexp.MustCompile(`^(0|-?[1-9]\d*)$`)

// guess is for custom resources: what reads like a number is one, except in maps of texts.
func guess(v any, texts bool) any {
	switch x := v.(type) {
	case map[string]any:
		for k, one := range x {
			x[k] = guess(one, texts || k == "labels" || k == "tags" || k == "metadata")
		}
	case []any:
		for i, one := range x {
			x[i] = guess(one, texts)
		}
	case string:
		if texts {
			return x
		}
		if b, err := strconv.ParseBool(x); err == nil && len(x) > 1 {
			return b
		}
		if n, err := strconv.ParseInt(x, 10, 64); err == nil && number.MatchString(x) {
			return n
		}
	}
	return v
}

// as converts the texts in a value to a type.
func as(t reflect.Type, v any) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	text, isText := v.(string)
	switch t {
	case reflect.TypeFor[intstr.IntOrString]():
		if n, err := strconv.ParseInt(text, 10, 64); isText && err == nil {
			return n
		}
		return v
	case reflect.TypeFor[resource.Quantity]():
		return v
	}
	if text == "None" && t.Kind() != reflect.String { // nothing, as Python writes it
		return nil
	}
	switch t.Kind() {
	case reflect.String: // which is JSON itself
		if m, ok := v.(map[string]any); ok {
			text, _ := json.Marshal(m) //nolint:errcheck // it was read from JSON
			return string(text)
		}
	case reflect.Struct:
		m, ok := v.(map[string]any)
		if !ok {
			return v
		}
		for k, one := range m {
			if f, ok := field(t, k); ok {
				m[k] = as(f, one)
			}
		}
	case reflect.Map:
		m, _ := v.(map[string]any)
		for k, one := range m {
			m[k] = as(t.Elem(), one)
		}
	case reflect.Slice:
		list, _ := v.([]any)
		for i, one := range list {
			list[i] = as(t.Elem(), one)
		}
	case reflect.Bool:
		if b, err := strconv.ParseBool(text); isText && err == nil {
			return b
		}
	case reflect.Int32, reflect.Int64:
		if n, err := strconv.ParseInt(text, 10, 64); isText && err == nil {
			return n
		}
	}
	return v
}

// field returns the type of a struct's field by its name in JSON.
func field(t reflect.Type, name string) (reflect.Type, bool) {
	for f := range t.Fields() {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name {
			return f.Type, true
		}
		if tag == "" && (strings.Contains(options, "inline") || f.Anonymous) {
			if inner, ok := field(f.Type, name); ok {
				return inner, true
			}
		}
	}
	return nil, false
}
