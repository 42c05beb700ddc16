package validate_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/spec/validate"
	"kops.local/kops/internal/test/goldentest"
	"kops.local/kops/internal/test/platformtest"
	"kops.local/kops/internal/test/spectest"
)

var update = flag.Bool("update", false, "write the findings into testdata/bad.yaml")

// badCase is a spec with an error.
type badCase struct {
	Name string `json:"name"`
	// Base is a case of package complete's testdata; if Options are set, a new cluster is used
	// instead.
	Base    string              `json:"base,omitempty"`
	Options *newcluster.Options `json:"options,omitempty"`
	// Cluster and Groups are assignments, spec.path=value, or paths with a leading minus, to unset
	// them.
	Cluster []string            `json:"cluster,omitempty"`
	Groups  map[string][]string `json:"groups,omitempty"`
	// Drop are groups to leave out.
	Drop []string `json:"drop,omitempty"`
	// Features are feature flags that are on.
	Features []string `json:"features,omitempty"`
	// Endpoint is the server of S3 buckets.
	Endpoint string `json:"endpoint,omitempty"`
	// Incomplete means that the spec is checked as written.
	Incomplete bool `json:"incomplete,omitempty"`
	// Want are the findings, all of them.
	Want []string `json:"want"`
}

// TestBadSpecsGetTheirMessages checks every finding of every spec in the table, and that there are
// no others.
func TestBadSpecsGetTheirMessages(t *testing.T) {
	cases := badCases(t)
	if len(cases) < 60 {
		t.Errorf("the table has %d cases", len(cases))
	}
	for i, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			var got []string
			for _, f := range findings(t, c) {
				got = append(got, f.String())
			}
			if *update {
				cases[i].Want = got
				return
			}
			if len(c.Want) == 0 {
				t.Fatal("the case expects nothing")
			}
			if d := cmp.Diff(c.Want, got); d != "" {
				t.Errorf("findings (-want +got):\n%s", d)
			}
		})
	}
	if *update {
		writeCases(t, cases)
	}
}

// file is the table's file.
const file = "testdata/bad.yaml"

func badCases(t *testing.T) []badCase {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []badCase
	if err := yaml.UnmarshalStrict(data, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// writeCases writes the table, one line per change and finding.
func writeCases(t *testing.T, cases []badCase) {
	t.Helper()
	b := &strings.Builder{}
	fmt.Fprintln(b, "# Specs with something wrong, and all that is told about each. Made by hand; -update writes want. See badCase for the keys.")
	for _, c := range cases {
		fmt.Fprintf(b, "- name: %s\n", c.Name)
		if c.Base != "" {
			fmt.Fprintf(b, "  base: %s\n", c.Base)
		}
		if c.Options != nil {
			fmt.Fprintf(b, "  options: %s\n", compact(t, c.Options))
		}
		writeList(b, "  ", "cluster", c.Cluster)
		if len(c.Groups) > 0 {
			fmt.Fprintln(b, "  groups:")
			for _, name := range slices.Sorted(maps.Keys(c.Groups)) {
				writeList(b, "    ", name, c.Groups[name])
			}
		}
		writeList(b, "  ", "drop", c.Drop)
		writeList(b, "  ", "features", c.Features)
		if c.Endpoint != "" {
			fmt.Fprintf(b, "  endpoint: %s\n", c.Endpoint)
		}
		if c.Incomplete {
			fmt.Fprintln(b, "  incomplete: true")
		}
		writeList(b, "  ", "want", c.Want)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func writeList(b *strings.Builder, indent, key string, items []string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(b, "%s%s:\n", indent, key)
	for _, s := range items {
		fmt.Fprintf(b, "%s- '%s'\n", indent, strings.ReplaceAll(s, "'", "''"))
	}
}

// compact writes the options that are set as JSON.
func compact(t *testing.T, o *newcluster.Options) string {
	t.Helper()
	set := map[string]any{}
	v := reflect.ValueOf(*o)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			set[v.Type().Field(i).Name] = v.Field(i).Interface()
		}
	}
	data, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// findings creates the case's cluster and checks it.
func findings(t *testing.T, c badCase) diag.List {
	t.Helper()
	world := spectest.Facts(t, "testdata")
	cluster, groups := base(t, c, world)
	groups = slices.DeleteFunc(groups, func(g *api.InstanceGroup) bool { return slices.Contains(c.Drop, g.Name) })
	cluster = spectest.Assign(t, cluster, c.Cluster)
	for i, g := range groups {
		groups[i] = spectest.Assign(t, g, c.Groups[g.Name])
	}
	features := complete.ParseFeatures(strings.Join(c.Features, ","))
	in := validate.Input{Platform: platformtest.Of(cluster).ForValidate(), Cluster: cluster, Groups: groups, Facts: world, Features: features, Endpoint: c.Endpoint}
	if !c.Incomplete {
		done, wrong := complete.Complete(complete.Input{Platform: platformtest.Of(cluster).ForComplete(), Cluster: cluster, Groups: groups, Facts: world, Channel: spectest.Stable(t), KopsVersion: "1.37.0", Features: features, Endpoint: c.Endpoint})
		if err := wrong.Err(); err != nil {
			return wrong
		}
		in.Cluster, in.Groups, in.Strict = done.Spec, done.Groups, true
	}
	return validate.All(in)
}

// Machines use the first file with a path, so a cluster with two of them works.
func TestASecondFileOfAPathIsNotRefused(t *testing.T) {
	found := findings(t, badCase{Base: "minimal-aws", Cluster: []string{"spec.fileAssets=[{name: a, content: x, path: /etc/x}, {name: b, content: z, path: /etc/x}]"}})
	if len(found) != 1 || !found[0].Warning {
		t.Errorf("got %q", lines(found))
	}
}

// What the user does not write on both sides is not refused.
func TestSpecsThatWorkAreAccepted(t *testing.T) {
	for name, c := range map[string]badCase{
		"amounts of zero that mean the default":    {Base: "minimal-aws", Cluster: []string{`spec.kubeDNS={memoryRequest: 70Mi, memoryLimit: "0", nodeLocalDNS: {cpuRequest: "0"}}`}},
		"requests above default limits":            {Base: "minimal-aws", Cluster: []string{"spec.kubeDNS.memoryRequest=256Mi", "spec.nodeProblemDetector={enabled: true, memoryRequest: 3Gi}"}},
		"limits below default requests":            {Base: "minimal-aws", Cluster: []string{"spec.kubeProxy.cpuLimit=1m", "spec.nodeTerminationHandler.memoryLimit=1Mi", `spec.nodeProblemDetector={enabled: true, cpuLimit: "0", memoryLimit: 1Mi}`}},
		"a mesh in the extra settings of Cilium":   {Base: "privatecilium", Cluster: []string{"spec.networking.cilium={clusterID: 3, extraConfig: {cluster-name: mesh-a}}"}},
		"no mesh in the extra settings of Cilium":  {Base: "privatecilium", Cluster: []string{`spec.networking.cilium={clusterID: 3, extraConfig: {cluster-id: "0"}}`}},
		"another port in the extra settings":       {Base: "privatecilium", Cluster: []string{`spec.networking.cilium={enablePrometheusMetrics: true, agentPrometheusPort: 9879, extraConfig: {prometheus-serve-addr: ":9090"}}`}},
		"the port of another address":              {Base: "privatecilium", Cluster: []string{`spec.networking.cilium={extraConfig: {prometheus-serve-addr: "10.0.0.1:9879"}}`}},
		"a number that is below AWS's mark":        {Base: "privatecilium", Cluster: []string{"spec.networking.cilium={clusterID: 127, clusterName: mesh-a, ipam: eni}"}},
		"a number outside of AWS's network":        {Base: "privatecilium", Cluster: []string{"spec.networking.cilium={clusterID: 200, clusterName: mesh-a}"}},
		"a number with AWS's mark that is allowed": {Base: "privatecilium", Cluster: []string{`spec.networking.cilium={clusterID: 200, clusterName: mesh-a, ipam: eni, extraConfig: {allow-unsafe-policy-skb-usage: "true"}}`}},
	} {
		for _, c.Incomplete = range []bool{true, false} {
			if found := findings(t, c); len(found) > 0 {
				t.Errorf("%s: got %q", name, lines(found))
			}
		}
	}
}

func base(t *testing.T, c badCase, world *facts.Facts) (*api.Cluster, []*api.InstanceGroup) {
	t.Helper()
	if c.Options != nil {
		cluster, groups, wrong := newcluster.New(*c.Options, newcluster.World{Platform: platformtest.Named(c.Options.CloudProvider).ForNew(), Complete: platformtest.Named(c.Options.CloudProvider).ForComplete(), Facts: world, Channel: spectest.Stable(t), KopsVersion: "1.37.0"})
		if err := wrong.Err(); err != nil {
			t.Fatal(err)
		}
		return cluster, groups
	}
	return spectest.Read(t, goldentest.Read(t, "../complete/testdata/update_cluster/"+c.Base, "in-v1alpha2.yaml"))
}

// TestGoodSpecsHaveNoFindings checks the inputs of all goldens, as written and completed.
func TestGoodSpecsHaveNoFindings(t *testing.T) {
	for name, dir := range goldenInputs(t, "../complete", "update_cluster") {
		t.Run(name, func(t *testing.T) {
			world := spectest.Facts(t, "../complete/testdata")
			cluster, groups := spectest.Read(t, goldentest.Read(t, dir, "in-v1alpha2.yaml"))
			if err := validate.All(validate.Input{Platform: platformtest.Of(cluster).ForValidate(), Cluster: cluster, Groups: groups, Facts: world}).Err(); err != nil {
				t.Errorf("as written:\n%v", err)
			}
			done, wrong := complete.Complete(complete.Input{Platform: platformtest.Of(cluster).ForComplete(), Cluster: cluster, Groups: groups, Facts: world, Channel: spectest.Stable(t), KopsVersion: "1.37.0"})
			if err := wrong.Err(); err != nil {
				t.Fatal(err)
			}
			if err := validate.All(validate.Input{Platform: platformtest.Of(done.Spec).ForValidate(), Cluster: done.Spec, Groups: done.Groups, Strict: true, Facts: world}).Err(); err != nil {
				t.Errorf("completed:\n%v", err)
			}
		})
	}
}

// A subnet that is too large for AWS is in a network that is too large, too: if others created that
// network, kOps accepted it.
func TestALargeSubnetOfASharedNetworkIsNotRefused(t *testing.T) {
	large := []string{"spec.networkID=vpc-9", "spec.networkCIDR=10.0.0.0/12", "spec.subnets[0].cidr=10.0.0.0/12"}
	found := findings(t, badCase{Base: "minimal-aws", Cluster: large})
	if len(found) != 1 || !found[0].Warning {
		t.Errorf("got %q", lines(found))
	}
}

// TestNewClustersHaveNoFindings checks the clusters that the options of all goldens yield, except
// for one with a gossip DNS name.
func TestNewClustersHaveNoFindings(t *testing.T) {
	world := spectest.Facts(t, "../newcluster/testdata")
	features := complete.ParseFeatures("APIServerNodes")
	for name, dir := range goldenInputs(t, "../newcluster", "create_cluster") {
		t.Run(name, func(t *testing.T) {
			o := spectest.Options(t, goldentest.Read(t, dir, "options.yaml"))
			o.ConfigBase, o.NodeSizes, o.ControlPlaneSizes = "memfs://tests/"+o.ClusterName, []string{"m"}, []string{"m"}
			cluster, groups, wrong := newcluster.New(o, newcluster.World{Platform: platformtest.Named(o.CloudProvider).ForNew(), Complete: platformtest.Named(o.CloudProvider).ForComplete(), Facts: world, Channel: spectest.Stable(t), KopsVersion: "1.37.0", Features: features})
			if err := wrong.Err(); err != nil {
				t.Fatal(err)
			}
			in := complete.Input{Platform: platformtest.Of(cluster).ForComplete(), Cluster: cluster, Groups: groups, Facts: world, Channel: spectest.Stable(t), KopsVersion: "1.37.0", Features: features}
			if cluster.Spec.DNSType() != api.DNSNone {
				in.Cluster.Spec.DNSZone = "zone"
			}
			done, wrong := complete.Complete(in)
			if err := wrong.Err(); err != nil {
				t.Fatal(err)
			}
			got := validate.All(validate.Input{Platform: platformtest.Of(done.Spec).ForValidate(), Cluster: done.Spec, Groups: done.Groups, Strict: true, Features: features})
			if name == "apiserver-gce" && len(got) == 1 && got[0].Rule == "gossip" {
				return
			}
			if err := got.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// FuzzSpecs completes and checks every readable spec: nothing may panic, and completing again must
// not change anything.
func FuzzSpecs(f *testing.F) {
	for _, name := range []string{"minimal-aws", "minimal-ipv6", "minimal_gce", "minimal_hetzner", "privatecilium"} {
		data, err := os.ReadFile("../complete/testdata/update_cluster/" + name + "/in-v1alpha2.yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("apiVersion: kops.k8s.io/v1alpha2\nkind: Cluster\nspec: {kubernetesVersion: 1.36.0}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		objects, _, err := compat.Decode(data, compat.Options{Lenient: true})
		if err != nil {
			return
		}
		cluster, groups := spectest.Sort(objects)
		if cluster == nil {
			cluster = &api.Cluster{}
		}
		in := complete.Input{Platform: platformtest.Of(cluster).ForComplete(), Cluster: cluster, Groups: groups}
		validate.All(validate.Input{Platform: platformtest.Of(in.Cluster).ForValidate(), Cluster: in.Cluster, Groups: in.Groups})
		done, wrong := complete.Complete(in)
		in.Cluster, in.Groups = done.Spec, done.Groups
		again, _ := complete.Complete(in)
		if d := cmp.Diff(done.Spec, again.Spec) + cmp.Diff(done.Groups, again.Groups); d != "" && wrong.Err() == nil {
			t.Errorf("completing twice (-once +twice):\n%s", d)
		}
		validate.All(validate.Input{Platform: platformtest.Of(done.Spec).ForValidate(), Cluster: done.Spec, Groups: done.Groups, Strict: true, Facts: &facts.Facts{Clouds: map[string]*facts.Cloud{"aws": {}}}})
		validate.Update(in.Cluster, done.Spec, nil)
	})
}

// goldenInputs returns the cases of another package, and any additional ones.
func goldenInputs(t *testing.T, pkg, set string) map[string]string {
	t.Helper()
	t.Chdir(pkg)
	cases := goldentest.Cases(t, set)
	for name, dir := range cases {
		if abs, err := filepath.Abs(dir); err == nil {
			cases[name] = abs
		}
	}
	t.Chdir("../validate")
	return cases
}

// TestFindingsNameFieldsThatExist clears the field that each finding of the table names, which is
// rejected if v1alpha2 has no such field.
func TestFindingsNameFieldsThatExist(t *testing.T) {
	index := regexp.MustCompile(`\[\d+\]`)
	for _, c := range badCases(t) {
		cluster, _ := base(t, c, spectest.Facts(t, "testdata"))
		blank := &api.Cluster{Spec: api.ClusterSpec{CloudProvider: cluster.Spec.CloudProvider}}
		for _, f := range findings(t, c) {
			path := index.ReplaceAllString(f.Path, "[0]")
			var wrong diag.List
			switch {
			case path == "":
				continue // about the cluster as a whole
			case strings.HasPrefix(f.Object, api.KindCluster+"/"):
				_, wrong = newcluster.Assign(blank, nil, []string{path})
			default:
				_, wrong = newcluster.Assign(&api.InstanceGroup{}, nil, []string{path})
			}
			if err := wrong.Err(); err != nil {
				t.Errorf("%s: %s: %v", c.Name, f.Path, err)
			}
		}
	}
}

// A password in a URL works, and is visible to everyone who reads user data: validation warns about
// it, without showing the password.
func TestPasswordsInURLsAreWarnedAbout(t *testing.T) {
	found := findings(t, badCase{Base: "minimal-aws", Cluster: []string{"spec.assets={fileRepository: https://bob:hunter2@files.example.com/kops}",
		"spec.containerd.registryMirrors={docker.io: [https://mirror.example.com, https://joe:hunter2@mirror.example.com]}",
		"spec.networking.egressProxy={httpProxy: {host: 'u:hunter2@proxy.example.com', port: 3128}}"}})
	var paths []string
	for _, f := range found {
		if !f.Warning || strings.Contains(f.String()+f.Value, "hunter2") || !strings.Contains(f.Remedy, "dockerconfig") {
			t.Errorf("got %q", f)
		}
		paths = append(paths, f.Path)
	}
	slices.Sort(paths)
	if want := []string{"spec.assets.fileRepository", "spec.containerd.registryMirrors[docker.io][1]", "spec.egressProxy.httpProxy.host"}; !slices.Equal(paths, want) {
		t.Errorf("got %q, want %q", paths, want)
	}
}
