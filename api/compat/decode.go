package compat

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/diag"
)

// Options configure how a file is read.
type Options struct {
	// File is the name of the file in findings; may be empty.
	File string
	// Lenient is for the content of a store: what this version of kops does not know, or
	// no longer supports, is dropped with a warning instead of an error.
	Lenient bool
	// Exact is for a document that was just written for one object: a field that no longer has
	// an effect is an error instead of a warning.
	Exact bool
	// RequireName refuses a cluster without a name, because new objects must have one.
	RequireName bool
}

// Decode reads the objects of a file: YAML with any number of documents, or JSON; of
// v1alpha2 or v1alpha3, or a List or an array of such. Objects of other API groups are returned
// as *unstructured.Unstructured, with their complete content. The defaults of the versions
// are set (see setDefaults).
//
// All errors are collected; the error is then a diag.List, and there are no objects. The
// warnings are findings that did not prevent reading.
func Decode(data []byte, o Options) (objects []api.Object, warnings diag.List, err error) {
	r := reader{file: o.File, lenient: o.Lenient}
	docs := r.documents(data)
	d := decoder{Options: o}
	for _, doc := range docs {
		objects = append(objects, d.document(doc, "")...)
	}
	findings := append(r.findings, d.findings...)
	slices.SortStableFunc(findings, func(a, b diag.Finding) int { return cmp.Compare(a.Line, b.Line) })
	findings = bounded(o.File, findings)
	for _, f := range findings {
		if f.Warning {
			warnings = append(warnings, f)
		}
	}
	if err := findings.Err(); err != nil {
		return nil, warnings, err
	}
	return objects, warnings, nil
}

// DecodeOne reads a file that holds one object of the type T, such as *api.Cluster.
func DecodeOne[T api.Object](data []byte, o Options) (T, diag.List, error) {
	var none T
	objects, warnings, err := Decode(data, o)
	if err != nil {
		return none, warnings, err
	}
	if len(objects) == 1 {
		if object, ok := objects[0].(T); ok {
			return object, warnings, nil
		}
	}
	found := "nothing"
	if len(objects) > 0 {
		found = api.Name(objects[0])
	}
	if len(objects) > 1 {
		found += fmt.Sprintf(" and %d more", len(objects)-1)
	}
	want := strings.TrimPrefix(fmt.Sprintf("%T", none), "*api.")
	return none, warnings, diag.List{{File: o.File, Rule: "kind", Message: "must hold one " + want + ", holds " + found}}
}

// decoder turns documents into objects.
type decoder struct {
	Options
	findings diag.List
}

// document reads one document, or the items of a list; path is its path.
func (d *decoder) document(v *value, path string) []api.Object {
	if v.form == formList && path == "" { // several objects printed as JSON have this form
		return d.each(v, path)
	}
	if v.form != formMap {
		d.add(v.line, path, "header", "must be an object with apiVersion and kind, not "+string(v.form), "")
		return nil
	}
	kindName, ok := d.header(v, path, "kind", "set the kind of the object, such as kind: Cluster")
	if !ok {
		return nil
	}
	apiVersion := ""
	if kindName != api.KindAddons || v.get("apiVersion") != nil {
		if apiVersion, ok = d.header(v, path, "apiVersion", "write apiVersion: kops.k8s.io/v1alpha2"); !ok {
			return nil
		}
	}
	if !d.group(v, kindName, apiVersion, path) {
		return nil
	}
	group, version, _ := strings.Cut(apiVersion, "/")
	ours := group == api.Group || group == "kops" || apiVersion == ""
	if (ours || apiVersion == "v1") && strings.HasSuffix(kindName, "List") {
		return d.items(v, path)
	}
	if !ours {
		return []api.Object{&unstructured.Unstructured{Object: standard(natural(v)).(map[string]any)}}
	}
	if version == "" { // only of Addons
		version = api.V1Alpha2
	}
	return d.object(v, kindName, version, path)
}

// group refuses an apiVersion that is most likely a misspelling of ours; otherwise an
// object of ours would be mistaken for one of another API.
func (d *decoder) group(v *value, kindName, apiVersion, path string) bool {
	group, _, versioned := strings.Cut(apiVersion, "/")
	message := ""
	switch {
	case apiVersion == "" || versioned && (group == api.Group || group == "kops"):
		return true
	case group == api.Group || group == "kops":
		message = "has no version"
	case apiVersion == api.V1Alpha2 || apiVersion == api.V1Alpha3:
		message = "has no group"
	case kinds()[strings.TrimSuffix(kindName, "List")] != nil && diag.Nearest(group, []string{api.Group}) != "":
		message = "unknown group " + group
	default:
		return true
	}
	d.add(v.get("apiVersion").line, join(path, "apiVersion"), "header", message, "did you mean "+api.Group+"/"+api.V1Alpha2+"?")
	return false
}

// header returns the text of kind or apiVersion, which is required.
func (d *decoder) header(v *value, path, key, remedy string) (string, bool) {
	switch h := v.get(key); {
	case h == nil || h.form == formNull || h.text == "":
		d.add(v.line, join(path, key), "header", "is missing", remedy)
	case h.form != formString:
		d.add(h.line, join(path, key), "header", "must be a string, not "+string(h.form), remedy)
	default:
		return h.text, true
	}
	return "", false
}

// items reads the items of a List.
func (d *decoder) items(v *value, path string) []api.Object {
	items := v.get("items")
	if items == nil || items.form == formNull {
		return nil
	}
	path = join(path, "items")
	if items.form != formList {
		d.add(items.line, path, "type", "must be a list, not "+string(items.form), "")
		return nil
	}
	return d.each(items, path)
}

// each reads the documents of a list.
func (d *decoder) each(v *value, path string) []api.Object {
	var out []api.Object
	for i, item := range v.list {
		out = append(out, d.document(item, fmt.Sprintf("%s[%d]", path, i))...)
	}
	return out
}

// object reads an object of our own group.
func (d *decoder) object(v *value, kindName, version, path string) []api.Object {
	k := kinds()[kindName]
	if k == nil {
		names := slices.Sorted(maps.Keys(kinds()))
		remedy := "use one of " + strings.Join(names, ", ")
		if near := diag.Nearest(kindName, names); near != "" {
			remedy = "did you mean " + near + "?"
		}
		d.add(v.get("kind").line, join(path, "kind"), "header", "unknown kind "+kindName, remedy)
		return nil
	}
	s := k.schemas[version]
	if s == nil {
		d.add(v.get("apiVersion").line, join(path, "apiVersion"), "header", "unknown version "+version,
			"use kops.k8s.io/v1alpha2 or kops.k8s.io/v1alpha3")
		return nil
	}
	c := checker{file: d.File, object: objectName(v), root: path, version: version, top: s, lenient: d.Lenient, exact: d.Exact, calls: k.calls[version]}
	if version == api.V1Alpha2 {
		c.cloud = api.CloudProviderID(v.get("spec").str("cloudProvider"))
	} else if kindName == api.KindCluster {
		c.oneCloud(v.get("spec").get("cloudProvider"), join(join(path, "spec"), "cloudProvider"))
	}
	doc := c.build(v, s, path).(map[string]any) // v is a map
	d.findings = append(d.findings, c.findings...)
	if c.findings.Err() != nil || kindName == api.KindCluster && !d.checkName(v, path) {
		return nil
	}
	if version == api.V1Alpha2 {
		k.up(doc)
	}
	o, err := k.object(doc)
	if err != nil {
		d.add(v.line, path, "type", err.Error(), "")
		return nil
	}
	o.GetObjectKind().SetGroupVersionKind(goVersion.WithKind(kindName))
	setDefaults(o)
	return []api.Object{o}
}

// checkName reports whether a cluster has a name, if one is required.
func (d *decoder) checkName(v *value, path string) bool {
	meta := v.get("metadata")
	if !d.RequireName || meta.str("name") != "" {
		return true
	}
	line := v.line
	if meta != nil {
		line = meta.line
	}
	d.add(line, join(join(path, "metadata"), "name"), "name", "is missing", "specify the name of the cluster, such as cluster.example.com")
	return false
}

// goVersion is the version whose shape the Go structs have.
var goVersion = runtimeschema.GroupVersion{Group: api.Group, Version: api.V1Alpha3}

// object creates the Go object of a v1alpha3 document.
func (k *kind) object(doc map[string]any) (api.Object, error) {
	data, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("write %s as JSON: %w", k.name, err)
	}
	o := k.blank()
	if err := json.Unmarshal(data, o); err != nil {
		return nil, fmt.Errorf("read %s: %w", k.name, err)
	}
	return o, nil
}

// add records a finding.
func (d *decoder) add(line int, path, rule, message, remedy string) {
	d.findings = append(d.findings, diag.Finding{
		File: d.File, Line: line, Path: path, Rule: rule, Message: message, Remedy: remedy,
	})
}

// standard converts numbers to the types of unstructured objects: int64 and float64.
func standard(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			v[key] = standard(item)
		}
	case []any:
		for i, item := range v {
			v[i] = standard(item)
		}
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64() // the reader has checked it
		return f
	}
	return v
}
