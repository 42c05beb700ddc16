package addons_test

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/model/addons"
	"kops.local/kops/internal/spec/versions"
	"kops.local/kops/internal/test/goldentest"
	"kops.local/kops/internal/test/takeover"
)

// everything returns the channels of all clusters of these tests, by name.
func everything(t *testing.T) map[string]*addons.Result {
	t.Helper()
	out := map[string]*addons.Result{}
	for name, in := range inputs() {
		out[name] = build(t, in(t))
	}
	for name, in := range scenarios(t) {
		out["takeover of "+name] = build(t, in)
	}
	return out
}

// workload is what has pods.
type workload struct {
	name     string
	replicas int // -1 for a DaemonSet
	pods     corev1.PodTemplateSpec
	selector map[string]string
}

func podsOf(t *testing.T, r *addons.Result) []workload {
	t.Helper()
	var out []workload
	for _, f := range r.Files {
		for _, o := range objectsOf(t, f) {
			switch o["kind"] {
			case "Deployment":
				d := into[appsv1.Deployment](t, o)
				n := 1
				if d.Spec.Replicas != nil {
					n = int(*d.Spec.Replicas)
				}
				if d.Spec.Replicas == nil && strings.Contains(f.Name, "coredns") { // its autoscaler keeps two, unless there is one node
					n = 2
				}
				out = append(out, workload{"Deployment/" + d.Namespace + "/" + d.Name, n, d.Spec.Template, d.Spec.Selector.MatchLabels})
			case "DaemonSet":
				d := into[appsv1.DaemonSet](t, o)
				out = append(out, workload{"DaemonSet/" + d.Namespace + "/" + d.Name, -1, d.Spec.Template, d.Spec.Selector.MatchLabels})
			}
		}
	}
	return out
}

// TestDrainsAreNotForbidden: every pod that a disruption budget protects can be evicted while all
// replicas run.
func TestDrainsAreNotForbidden(t *testing.T) {
	budgets := 0
	for name, r := range everything(t) {
		all := podsOf(t, r)
		for _, f := range r.Files {
			for _, o := range objectsOf(t, f) {
				if o["kind"] != "PodDisruptionBudget" {
					continue
				}
				budgets++
				b := into[policyv1.PodDisruptionBudget](t, o)
				s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
				if err != nil {
					t.Fatal(err)
				}
				i := slices.IndexFunc(all, func(w workload) bool { return s.Matches(labels.Set(w.pods.Labels)) })
				if i < 0 {
					t.Errorf("%s: the disruption budget %s protects no pods", name, b.Name)
					continue
				}
				if n := allowed(b, all[i].replicas); n < 1 {
					t.Errorf("%s: the disruption budget %s lets none of %d replicas of %s go", name, b.Name, all[i].replicas, all[i].name)
				}
			}
		}
	}
	if budgets < 10 {
		t.Errorf("only %d budgets", budgets)
	}
}

// allowed returns how many of a workload's running replicas may be evicted at once; the API server
// rounds percentages up.
func allowed(b policyv1.PodDisruptionBudget, replicas int) int {
	percent := func(n int) int { return (n*replicas + 99) / 100 }
	if m := b.Spec.MaxUnavailable; m != nil {
		var n int
		if _, err := fmt.Sscanf(m.StrVal, "%d%%", &n); err == nil {
			return percent(n)
		}
		return m.IntValue()
	}
	var n int
	if _, err := fmt.Sscanf(b.Spec.MinAvailable.StrVal, "%d%%", &n); err == nil {
		return replicas - percent(n)
	}
	return replicas - b.Spec.MinAvailable.IntValue()
}

// TestPodsAreToldOfNamesThatTheyCanResolve: only pods on their node's network know the names in its
// hosts file, such as the internal name of the API server.
func TestPodsAreToldOfNamesThatTheyCanResolve(t *testing.T) {
	for name, r := range everything(t) {
		for _, w := range podsOf(t, r) {
			if w.pods.Spec.HostNetwork {
				continue
			}
			for _, c := range slices.Concat(w.pods.Spec.InitContainers, w.pods.Spec.Containers) {
				for _, e := range c.Env {
					if strings.HasPrefix(e.Name, "KUBERNETES_SERVICE_") {
						t.Errorf("%s: %s: the container %s reaches the API server by %s", name, w.name, c.Name, e.Value)
					}
				}
			}
		}
	}
}

// TestImmutableFieldsAreThoseOfKOps: what cannot be changed in a running object is what kOps sets, or the
// object would have to be recreated at a takeover, and could not be handed back.
func TestImmutableFieldsAreThoseOfKOps(t *testing.T) {
	rows := takeover.Rows(t)
	compared := 0
	for scenario, in := range scenarios(t) {
		for _, f := range build(t, in).Files {
			theirs := map[string]map[string]any{}
			for _, o := range takeover.Objects(t, rows, tableName(f), scenario, in.Cluster.Name) {
				theirs[refOf(o)] = o
			}
			for _, o := range objectsOf(t, f) {
				kops := theirs[refOf(o)]
				if kops == nil {
					continue
				}
				for _, p := range immutable(fmt.Sprint(o["kind"])) {
					a, b := nested(kops, p), nested(o, p)
					compared++
					if !reflect.DeepEqual(a, b) {
						t.Errorf("%s: %s: %s is %v, kOps has %v", scenario, refOf(o), strings.Join(p, "."), b, a)
					}
				}
			}
		}
	}
	if compared < 300 {
		t.Errorf("only %d fields compared", compared)
	}
}

func immutable(kind string) [][]string {
	switch kind {
	case "Deployment", "DaemonSet", "StatefulSet":
		return [][]string{{"spec", "selector"}}
	case "Service": // changeable, but pods without the labels would not be reached
		return [][]string{{"spec", "selector"}}
	case "RoleBinding", "ClusterRoleBinding":
		return [][]string{{"roleRef", "kind"}, {"roleRef", "name"}}
	case "StorageClass":
		return [][]string{{"provisioner"}, {"parameters"}, {"reclaimPolicy"}, {"volumeBindingMode"}}
	case "PriorityClass":
		return [][]string{{"value"}}
	case "CSIDriver":
		return [][]string{{"spec", "attachRequired"}, {"spec", "volumeLifecycleModes"}}
	}
	return nil
}

func nested(o map[string]any, path []string) any {
	var v any = o
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	if n, ok := v.(int64); ok {
		return float64(n)
	}
	return v
}

func refOf(o map[string]any) string {
	m, _ := o["metadata"].(map[string]any)
	if ns, ok := m["namespace"]; ok {
		return fmt.Sprint(o["kind"], "/", ns, "/", m["name"])
	}
	return fmt.Sprint(o["kind"], "/", m["name"])
}

var imageVersion = regexp.MustCompile(`:v?(\d+\.\d+(?:\.\d+)?)`)

// TestNoImageIsOlderThanInKOps: every image of an add-on is at least as new as kOps' own. Versions that
// follow that of Kubernetes are not compared.
func TestNoImageIsOlderThanInKOps(t *testing.T) {
	theirs := map[string]string{} // the newest version, by add-on and the end of an image's name
	for _, r := range takeover.Rows(t) {
		if !strings.HasSuffix(r.Path, ".image") || !imageVersion.MatchString(r.Value) || strings.Contains(r.Value, "/kops/") {
			continue
		}
		name, version := splitImage(r.Value)
		for addon := r.Addon; addon != ""; addon = addon[:max(0, strings.LastIndexByte(addon, '-'))] { // the file's name goes on with an ID
			if old := theirs[addon+" "+name]; old == "" || olderThan(t, old, version) {
				theirs[addon+" "+name] = version
			}
		}
	}
	var more map[string]string // images that are not in the table
	if err := yaml.UnmarshalStrict(goldentest.Read(t, "testdata", "versions.yaml"), &more); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for name, r := range everything(t) {
		for _, f := range r.Files {
			for _, i := range f.Images {
				image, version := splitImage(i.Public)
				if seen[i.Public] || strings.HasPrefix(i.Public, "kops.internal/") {
					continue
				}
				seen[i.Public] = true
				switch want := cmp.Or(theirs[f.Name+" "+image], more[image]); {
				case want == "":
					t.Errorf("%s: it is not known which version of %s kOps has; add it to testdata/versions.yaml", name, i.Public)
				case want == "any":
				case olderThan(t, version, want):
					t.Errorf("%s: %s is older than kOps' %s", name, i.Public, want)
				}
			}
		}
	}
	if len(seen) < 40 {
		t.Errorf("only %d images: %v", len(seen), slices.Sorted(maps.Keys(seen)))
	}
}

// splitImage returns the last part of an image's name, and its version.
func splitImage(image string) (name, version string) {
	image, _, _ = strings.Cut(image, "@")
	name, _, _ = strings.Cut(path.Base(image), ":")
	if m := imageVersion.FindStringSubmatch(path.Base(image)); m != nil {
		version = m[1]
	}
	return name, version
}

func olderThan(t *testing.T, a, b string) bool {
	t.Helper()
	full := func(v string) string {
		if strings.Count(v, ".") == 1 {
			v += ".0"
		}
		return v
	}
	x, err := versions.ParseVersion(full(a))
	if err != nil {
		t.Fatal(err)
	}
	y, err := versions.ParseVersion(full(b))
	if err != nil {
		t.Fatal(err)
	}
	return cmp.Or(cmp.Compare(x.Major, y.Major), cmp.Compare(x.Minor, y.Minor), cmp.Compare(x.Patch, y.Patch)) < 0
}

// TestUsersConfigurationReplacesTheAddons: a ConfigMap that a user gives to kops is not also an add-on's.
func TestUsersConfigurationReplacesTheAddons(t *testing.T) {
	in := cluster(t, variants()["minimal"])
	in.Objects = []map[string]any{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "kube-system", "name": "coredns"}, "data": map[string]any{"Corefile": "mine"}}}
	r := build(t, in)
	found := 0
	for _, f := range r.Files {
		for _, o := range objectsOf(t, f) {
			if refOf(o) == "ConfigMap/kube-system/coredns" {
				found++
				if f.Name != "cluster-addons.kops.k8s.io" {
					t.Errorf("%s has it, too", f.Name)
				}
			}
		}
	}
	if found != 1 || len(r.Findings) != 1 || r.Findings[0].String() != "add-on coredns.addons.k8s.io: your own ConfigMap kube-system/coredns is used instead of the add-on's; rename yours, unless it is meant to replace the add-on's" {
		t.Errorf("%d objects, %v", found, r.Findings)
	}
}
