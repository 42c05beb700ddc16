// Package modeltest builds, renders and prints a platform's model of clusters, for goldens and transcripts.
//
// It is for tests only, and must not know any platform.
package modeltest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// Base is the cluster that transcripts modify.
type Base struct {
	// Name is the name of the cluster in Cluster, its document in YAML.
	Name, Cluster string
	// Groups are specs of its groups by name, in YAML.
	Groups string
}

// Run compares the transcripts in testdata, or writes them with -update. A transcript has a
// first line that names the kinds to show, and files: name, if the cluster's name is not the
// base's; cluster, a spec that is merged over the base's; groups, specs by name, if they are
// not the base's; want, the result of print.
func (b Base) Run(t *testing.T, print func(t *testing.T, documents []byte, show []string) string) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(string(archive.Comment), "\n")
			got := print(t, b.Documents(t, Sections(archive)), strings.Fields(strings.TrimPrefix(first, "show:")))
			want := ""
			for i := range archive.Files {
				if f := &archive.Files[i]; f.Name == "want" {
					want, f.Data = string(f.Data), []byte(got)
				}
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Sections returns the files of an archive by name.
func Sections(a *txtar.Archive) map[string]string {
	out := map[string]string{}
	for _, f := range a.Files {
		out[f.Name] = string(f.Data)
	}
	return out
}

// Documents returns the cluster and the groups of a transcript's files.
func (b Base) Documents(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var cluster, patch, groups map[string]any
	name := strings.TrimSpace(files["name"])
	if name == "" {
		name = b.Name
	}
	if _, own := files["groups"]; !own {
		files = maps.Clone(files)
		files["groups"] = b.Groups
	}
	for text, to := range map[string]*map[string]any{strings.ReplaceAll(b.Cluster, b.Name, name): &cluster, files["cluster"]: &patch, files["groups"]: &groups} {
		if err := yaml.Unmarshal([]byte(text), to); err != nil {
			t.Fatal(err)
		}
	}
	cluster["spec"] = overlay(cluster["spec"].(map[string]any), patch)
	docs := []any{cluster}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		docs = append(docs, map[string]any{
			"apiVersion": "kops.k8s.io/v1alpha2", "kind": "InstanceGroup",
			"metadata": map[string]any{"name": group, "labels": map[string]any{"kops.k8s.io/cluster": name}},
			"spec":     groups[group],
		})
	}
	var all []byte
	for _, d := range docs {
		text, err := yaml.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		all = append(append(all, "---\n"...), text...)
	}
	return all
}

// CheckPlan checks that no two nodes have the same key, and that all of the cluster's
// own objects can be created.
func CheckPlan(t *testing.T, g *graph.Graph, kinds []resource.Any) {
	t.Helper()
	keys := map[string]resource.Address{}
	for n := range g.All() {
		key := n.Address.Kind + " " + n.Kind.KeyOf(n.Want)
		if other, taken := keys[key]; taken && n.Adopt == "" {
			t.Errorf("%s and %s have one key", other, n.Address)
		}
		keys[key] = n.Address
	}
	own := g.Select(func(n resource.Node) bool { return n.Adopt == "" })
	p, err := plan.Make(own, nil, kinds, plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := p.Count(plan.Create); n != own.Len() {
		t.Errorf("%d of %d resources would be made", n, own.Len())
	}
}

// WithoutResources returns a configuration without resources and outputs.
func WithoutResources(text string) string {
	var parts []string
	for _, part := range strings.SplitAfter(text, "\n}\n") {
		if head := strings.TrimSpace(part); !strings.HasPrefix(head, "resource") && !strings.HasPrefix(head, "output") {
			parts = append(parts, head+"\n")
		}
	}
	return strings.Join(parts, "")
}

// overlay returns a map with another map's entries merged over it.
func overlay(under, over map[string]any) map[string]any {
	for k, v := range over {
		a, isMap := under[k].(map[string]any)
		b, areMaps := v.(map[string]any)
		if isMap && areMaps && k != "networking" {
			v = overlay(a, b)
		}
		under[k] = v
	}
	return under
}

// Print lists the nodes of the kinds, without the hidden fields; tags only for kinds
// that are named with "+tags".
func Print(g *graph.Graph, show []string, hidden ...string) string {
	var lines []string
	for n := range g.All() {
		i := slices.IndexFunc(show, func(k string) bool { return strings.TrimSuffix(k, "+tags") == n.Address.Kind })
		if i < 0 {
			continue
		}
		line := n.Address.String()
		if n.Adopt != "" {
			line += " = " + n.Adopt
		}
		v := reflect.ValueOf(n.Want).Elem()
		for _, f := range n.Kind.Schema().Fields {
			if f.Mode == resource.Output || f.Name == "Tags" && !strings.HasSuffix(show[i], "+tags") ||
				slices.Contains(hidden, f.Name) {
				continue
			}
			if text := formatValue(v.Field(f.Index)); text != "" {
				line += "\n  " + f.Name + ": " + strings.ReplaceAll(text, "\n", "\n    ")
			}
		}
		lines = append(lines, line+"\n")
	}
	return strings.Join(lines, "")
}

// formatValue prints a value; a zero value or an empty list is printed as "".
func formatValue(v reflect.Value) string {
	if v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
		return ""
	}
	switch x := v.Interface().(type) {
	case resource.Value:
		return x.String()
	case resource.Content:
		return x.Value().String()
	}
	switch v.Kind() {
	case reflect.Pointer:
		if text := formatValue(v.Elem()); text != "" {
			return text
		}
		return "0"
	case reflect.Struct:
		var items []string
		for i := range v.NumField() {
			if text := formatValue(v.Field(i)); text != "" {
				items = append(items, v.Type().Field(i).Name+": "+text)
			}
		}
		return "{" + strings.Join(items, ", ") + "}"
	case reflect.Slice:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = formatValue(v.Index(i))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case reflect.Map:
		var items []string
		for _, k := range v.MapKeys() {
			items = append(items, k.String()+"="+formatValue(v.MapIndex(k)))
		}
		slices.Sort(items)
		return "{" + strings.Join(items, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}
