package model

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
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/render/terraform/schematest"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/kinds"
	awsspec "kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/spec/facts"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// baseName is the name of the cluster that a transcript changes.
const baseName = "a.example.com"

// base is that cluster.
const base = `
apiVersion: kops.k8s.io/v1alpha2
kind: Cluster
metadata:
  name: a.example.com
spec:
  kubernetesApiAccess: [0.0.0.0/0]
  channel: stable
  cloudProvider: aws
  configBase: s3://bucket/a.example.com
  etcdClusters:
  - name: main
    etcdMembers: [{name: a, instanceGroup: cp}]
  - name: events
    etcdMembers: [{name: a, instanceGroup: cp}]
  kubernetesVersion: 1.36.0
  networkCIDR: 172.20.0.0/16
  networking: {cni: {}}
  nonMasqueradeCIDR: 100.64.0.0/10
  sshAccess: [0.0.0.0/0]
  subnets:
  - {name: us-test-1a, cidr: 172.20.32.0/19, type: Public, zone: us-test-1a}
`

// baseGroups are its groups where a transcript has none.
const baseGroups = `
cp: {role: Master, machineType: m3.medium, image: i, subnets: [us-test-1a]}
nodes: {role: Node, machineType: t2.medium, image: i, subnets: [us-test-1a]}
`

// TestTranscripts prints the nodes of clusters. A transcript in testdata has a
// first line that names the kinds to show, and files: name, of a cluster that is
// not called as the base is; cluster, a spec that is laid over the base's; groups,
// specs by name; want, what is printed, or the error.
func TestTranscripts(t *testing.T) {
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
			got := transcript(t, sections(archive), strings.Fields(strings.TrimPrefix(first, "show:")))
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

func sections(a *txtar.Archive) map[string]string {
	m := map[string]string{"groups": baseGroups}
	for _, f := range a.Files {
		m[f.Name] = string(f.Data)
	}
	return m
}

func transcript(t *testing.T, files map[string]string, show []string) string {
	t.Helper()
	in := read(t, documents(t, files))
	setAddresses(t, in.Facts)
	g := &graph.Graph{}
	if err := Build(in, g); err != nil {
		return "error: " + err.Error() + "\n"
	}
	checkPlan(t, g)
	doc, err := Terraform(in, g)
	if err != nil {
		return printed(g, show) + "terraform: " + err.Error() + "\n"
	}
	configuration, err := terraform.Render(doc)
	if err != nil {
		t.Fatal(err)
	}
	schematest.Validate(t, configuration)
	if !slices.Contains(show, "terraform") {
		return printed(g, show)
	}
	return printed(g, show) + around(string(configuration[terraform.MainFile]))
}

// documents are the cluster and the groups of a transcript.
func documents(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var cluster, patch, groups map[string]any
	name := strings.TrimSpace(files["name"])
	if name == "" {
		name = baseName
	}
	for text, to := range map[string]*map[string]any{strings.ReplaceAll(base, baseName, name): &cluster, files["cluster"]: &patch, files["groups"]: &groups} {
		if err := yaml.Unmarshal([]byte(text), to); err != nil {
			t.Fatal(err)
		}
	}
	cluster["spec"] = lay(cluster["spec"].(map[string]any), patch)
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

// checkPlan checks that no two nodes are taken for one thing, and that all of
// the cluster's own can be made.
func checkPlan(t *testing.T, g *graph.Graph) {
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
	p, err := plan.Make(own, nil, kinds.All(), plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := p.Count(plan.Create); n != own.Len() {
		t.Errorf("%d of %d resources would be made", n, own.Len())
	}
}

// around is what a configuration has besides resources and outputs.
func around(text string) string {
	var parts []string
	for _, part := range strings.SplitAfter(text, "\n}\n") {
		if head := strings.TrimSpace(part); !strings.HasPrefix(head, "resource") && !strings.HasPrefix(head, "output") {
			parts = append(parts, head+"\n")
		}
	}
	return strings.Join(parts, "")
}

// lay returns a map with another's entries laid over it.
func lay(under, over map[string]any) map[string]any {
	for k, v := range over {
		a, isMap := under[k].(map[string]any)
		b, areMaps := v.(map[string]any)
		if isMap && areMaps && k != "networking" {
			v = lay(a, b)
		}
		under[k] = v
	}
	return under
}

// printed lists the nodes of the kinds; tags only of kinds that are named with "+tags".
func printed(g *graph.Graph, show []string) string {
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
				f.Name == "TagSpecifications" || f.Name == "InstanceGroup" {
				continue
			}
			if text := shown(v.Field(f.Index)); text != "" {
				line += "\n  " + f.Name + ": " + strings.ReplaceAll(text, "\n", "\n    ")
			}
		}
		lines = append(lines, line+"\n")
	}
	return strings.Join(lines, "")
}

// shown prints a value, nothing for a zero one.
func shown(v reflect.Value) string {
	if v.IsZero() {
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
		if text := shown(v.Elem()); text != "" {
			return text
		}
		return "0"
	case reflect.Struct:
		var items []string
		for i := range v.NumField() {
			if text := shown(v.Field(i)); text != "" {
				items = append(items, v.Type().Field(i).Name+": "+text)
			}
		}
		return "{" + strings.Join(items, ", ") + "}"
	case reflect.Slice:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = shown(v.Index(i))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case reflect.Map:
		var items []string
		for _, k := range v.MapKeys() {
			items = append(items, k.String()+"="+fmt.Sprint(v.MapIndex(k)))
		}
		slices.Sort(items)
		return "{" + strings.Join(items, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}

// setAddresses gives the account an address.
func setAddresses(t *testing.T, f *facts.Facts) {
	t.Helper()
	own, err := facts.OwnAs[awsspec.Facts](f.Of("aws"))
	if err != nil {
		t.Fatal(err)
	}
	own.ElasticIPs = map[string]string{"198.51.100.7": "eipalloc-7"}
	if err := f.Of("aws").SetOwn(own); err != nil {
		t.Fatal(err)
	}
}
