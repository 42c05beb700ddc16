package addons_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/model/addons"
	"kops.local/kops/internal/test/goldentest"
	"kops.local/kops/internal/test/spectest"
	"kops.local/kops/internal/test/turns"
)

// effect is what a field of a spec does in the manifests.
type effect struct {
	// Field is its path in v1alpha2; Kind is InstanceGroup for a group's.
	Field string `json:"field"`
	Kind  string `json:"kind"`
	// Group is the index of the group whose field it is: 0 is the control plane, 1 the nodes.
	Group *int `json:"group"`
	// Cloud is aws or gce. Cluster and Groups are merged over its cluster and groups, and Networking
	// replaces the network that the cluster has.
	Cloud      string           `json:"cloud"`
	Cluster    map[string]any   `json:"cluster"`
	Networking map[string]any   `json:"networking"`
	Groups     []map[string]any `json:"groups"`
	// At is KIND/NAMESPACE/NAME, or KIND/NAME, and a path in the object.
	At string `json:"at"`
	// Values are what the field is set to. Nothing is the reason why it has no effect.
	Values  []effectOf `json:"values"`
	Nothing string     `json:"nothing"`
}

// effectOf is the effect of a value; null is a field that is not set.
type effectOf struct {
	Set any `json:"set"`
	// At replaces the place of the field.
	At    string `json:"at"`
	Has   texts  `json:"has"`
	Lacks texts  `json:"lacks"`
	Is    *any   `json:"is"`
	// Absent means that there is no such object, or nothing at the path.
	Absent bool `json:"absent"`
}

// texts is a text, or a list of texts.
type texts []string

func (l *texts) UnmarshalJSON(data []byte) error {
	if data[0] == '[' {
		return json.Unmarshal(data, (*[]string)(l))
	}
	var one any
	err := json.Unmarshal(data, &one)
	*l = texts{fmt.Sprint(one)}
	return err
}

func effects(t *testing.T) map[string][]effect {
	t.Helper()
	files, err := filepath.Glob("testdata/effects/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]effect{}
	for _, f := range files {
		var list []effect
		if err := yaml.UnmarshalStrict(goldentest.Read(t, filepath.Dir(f), filepath.Base(f)), &list); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		out[strings.TrimSuffix(filepath.Base(f), ".yaml")] = list
	}
	return out
}

// TestFieldsOfAddonsHaveTheirEffects: each value of a field, and its absence, has in the manifests what
// testdata/effects says, at the place that it says.
func TestFieldsOfAddonsHaveTheirEffects(t *testing.T) {
	mine := turns.ItemsOfTurn(t, 2)
	for name, list := range effects(t) {
		if !mine(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, e := range list {
				t.Run(fmt.Sprintf("%d %s", i, e.Field), func(t *testing.T) { e.check(t) })
			}
		})
	}
}

func (e effect) check(t *testing.T) {
	switch {
	case e.Nothing != "":
		e.checkNothing(t)
		return
	case len(e.Values) < 2:
		t.Fatal("one value does not show an effect")
	}
	seen := map[string]bool{}
	for _, v := range e.Values {
		what := fmt.Sprintf("%s = %v", e.Field, v.Set)
		manifests, err := e.render(t, v.Set)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		at := cmp.Or(v.At, e.At)
		text, found, err := look(t, manifests, at)
		if err != nil {
			t.Fatal(err)
		}
		seen[fmt.Sprint(found, text)] = true
		if found == v.Absent {
			t.Errorf("%s: %s exists: %t", what, at, found)
			continue
		}
		if v.Is != nil && text != plainText(*v.Is) {
			t.Errorf("%s: %s is %q, want %q", what, at, text, plainText(*v.Is))
		}
		for _, want := range v.Has {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %s lacks %q:\n%.2000s", what, at, want, text)
			}
		}
		for _, not := range v.Lacks {
			if strings.Contains(text, not) {
				t.Errorf("%s: %s has %q:\n%.2000s", what, at, not, text)
			}
		}
	}
	if len(seen) == 1 && !slices.ContainsFunc(e.Values, func(v effectOf) bool { return v.At != "" }) {
		t.Errorf("%s changes nothing at %s", e.Field, e.At)
	}
}

// checkNothing: all values give the same manifests.
func (e effect) checkNothing(t *testing.T) {
	unset, err := e.render(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range e.Values {
		got, err := e.render(t, v.Set)
		if err != nil {
			t.Errorf("%s = %v: %v", e.Field, v.Set, err)
		} else if !reflect.DeepEqual(unset, got) {
			t.Errorf("%s = %v changes manifests", e.Field, v.Set)
		}
	}
}

// render returns the files of a cluster's add-ons with a value of the field.
func (e effect) render(t *testing.T, value any) ([]addons.File, error) {
	t.Helper()
	var docs []map[string]any
	for doc := range strings.SplitSeq(string(goldentest.Read(t, "testdata", cmp.Or(e.Cloud, "aws")+".yaml")), "\n---\n") {
		var d map[string]any
		if err := yaml.Unmarshal([]byte(doc), &d); err != nil {
			t.Fatal(err)
		}
		docs = append(docs, d)
	}
	if e.Networking != nil {
		docs[0]["spec"].(map[string]any)["networking"] = e.Networking
	}
	mergeInto(docs[0], e.Cluster)
	for i, g := range e.Groups {
		if i+1 == len(docs) {
			docs = append(docs, clone(docs[i]))
		}
		mergeInto(docs[i+1], g)
	}
	in := docs[0]
	if e.Kind == api.KindInstanceGroup {
		n := 1
		if e.Group != nil {
			n = *e.Group
		}
		in = docs[n+1]
	}
	setField(in, strings.Split(e.Field, "."), value)
	var text []string
	for _, d := range docs {
		one, err := yaml.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, string(one))
	}
	return renderSpec(t, []byte(strings.Join(text, "---\n")))
}

// renderSpec returns the files of the add-ons of a cluster.
func renderSpec(t *testing.T, spec []byte) ([]addons.File, error) {
	t.Helper()
	objects, _, err := compat.Decode(spec, compat.Options{})
	if err != nil {
		return nil, err
	}
	cluster, groups := spectest.Sort(objects)
	in, err := completed(t, cluster, groups)
	if err != nil {
		return nil, err
	}
	r, err := addons.Build(in)
	if err != nil {
		return nil, err
	}
	return r.Files, nil
}

// objectIn returns an object by KIND/NAMESPACE/NAME or KIND/NAME; nil if there is none.
func objectIn(t *testing.T, files []addons.File, ref string) map[string]any {
	t.Helper()
	for _, f := range files {
		if !strings.Contains(string(f.Content), path.Base(ref)) { // it is cheaper than reading it
			continue
		}
		for doc := range strings.SplitSeq(string(f.Content), "\n---\n") {
			kind, _, _ := strings.Cut(ref, "/")
			if !strings.Contains(doc, "kind: "+kind) || !strings.Contains(doc, path.Base(ref)) {
				continue
			}
			objects, err := addons.Decode([]byte(doc))
			if err != nil {
				t.Fatalf("%s: %v", f.Path, err)
			}
			for _, o := range objects {
				if refOf(o) == ref {
					return o
				}
			}
		}
	}
	return nil
}

// mergeInto sets values of one map in another; null removes.
func mergeInto(to, from map[string]any) {
	for k, v := range from {
		a, isMap := to[k].(map[string]any)
		b, both := v.(map[string]any)
		switch {
		case v == nil:
			delete(to, k)
		case isMap && both:
			mergeInto(a, b)
		default:
			to[k] = v
		}
	}
}

func clone(m map[string]any) map[string]any {
	text, _ := json.Marshal(m) //nolint:errcheck // it was read from YAML
	var out map[string]any
	_ = json.Unmarshal(text, &out)
	return out
}

// setField sets a field, or removes it if the value is nil.
func setField(in map[string]any, path []string, value any) {
	for _, key := range path[:len(path)-1] {
		next, ok := in[key].(map[string]any)
		if !ok {
			if value == nil {
				return
			}
			next = map[string]any{}
			in[key] = next
		}
		in = next
	}
	if value == nil {
		delete(in, path[len(path)-1])
		return
	}
	in[path[len(path)-1]] = value
}

var pathKey = regexp.MustCompile(`\[[^\]]*\]|"[^"]*"|[^.\["]+`)

// look returns the text of what is at a place, and whether there is anything.
func look(t *testing.T, files []addons.File, at string) (string, bool, error) {
	t.Helper()
	name, keys, _ := strings.Cut(at, " ")
	o := objectIn(t, files, name)
	if o == nil {
		return "", false, nil
	}
	var v any = o
	for _, key := range pathKey.FindAllString(keys, -1) {
		ok := false
		switch x := v.(type) {
		case map[string]any:
			v, ok = x[strings.Trim(key, `"`)]
		case []any:
			item := strings.Trim(key, "[]")
			if n, err := strconv.Atoi(item); err == nil && n < len(x) {
				v, ok = x[n], true
				break
			}
			for _, one := range x {
				if m, _ := one.(map[string]any); m["name"] == item || m["key"] == item {
					v, ok = one, true
				}
			}
		default:
			return "", false, errors.New(at + ": " + key + " is in neither an object nor a list")
		}
		if !ok || v == nil {
			return "", false, nil
		}
	}
	return plainText(v), true, nil
}

// plainText returns a scalar as it is, a list of scalars as lines, and anything else as YAML.
func plainText(v any) string {
	switch x := v.(type) {
	case []any:
		var lines []string
		for _, one := range x {
			lines = append(lines, plainText(one))
		}
		return strings.Join(lines, "\n")
	case map[string]any:
		text, _ := yaml.Marshal(x) //nolint:errcheck // it was read from YAML
		return string(text)
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}
