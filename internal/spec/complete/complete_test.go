package complete_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/test/goldentest"
	"kops.local/kops/internal/test/platformtest"
	"kops.local/kops/internal/test/spectest"
)

func encode(t *testing.T, objects ...api.Object) []byte {
	t.Helper()
	data, err := compat.Encode(api.V1Alpha2, objects...)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestCompletedSpecsEqualTheGoldens(t *testing.T) {
	world, c := spectest.Facts(t, "testdata"), spectest.Stable(t)
	for name, dir := range goldentest.Cases(t, "update_cluster") {
		t.Run(name, func(t *testing.T) {
			cluster, groups := spectest.Read(t, goldentest.Read(t, dir, "in-v1alpha2.yaml"))
			done, findings := complete.Complete(complete.Input{Platform: platformtest.Of(cluster).ForComplete(), Cluster: cluster, Groups: groups, Facts: world, Channel: c, KopsVersion: "1.37.0"})
			if err := findings.Err(); err != nil {
				t.Fatal(err)
			}
			want := goldentest.Read(t, dir, "data/*cluster-completed.spec_content")
			if d := goldentest.Diff(t, want, encode(t, done.Spec)); d != "" {
				t.Errorf("completed spec (-want +got):\n%s", d)
			}
		})
	}
}

func TestGroupKubeletsEqualTheGoldens(t *testing.T) {
	world, c := spectest.Facts(t, "testdata"), spectest.Stable(t)
	compared := 0
	for name, dir := range goldentest.Cases(t, "update_cluster") {
		t.Run(name, func(t *testing.T) {
			cluster, groups := spectest.Read(t, goldentest.Read(t, dir, "in-v1alpha2.yaml"))
			done, _ := complete.Complete(complete.Input{Platform: platformtest.Of(cluster).ForComplete(), Cluster: cluster, Groups: groups, Facts: world, Channel: c})
			for _, g := range done.Groups {
				file := filepath.Join(dir, "data", "aws_s3_object_nodeupconfig-"+g.Name+"_content")
				data, err := os.ReadFile(file)
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				var want struct {
					KubeletConfig    any `yaml:"KubeletConfig"`
					ContainerdConfig any `yaml:"containerdConfig"`
				}
				if err := yamlv3.Unmarshal(data, &want); err != nil {
					t.Fatal(err)
				}
				compared++
				if d := cmp.Diff(want.KubeletConfig, generic(t, g.Spec.Kubelet)); d != "" {
					t.Errorf("kubelet of %s (-want +got):\n%s", g.Name, d)
				}
				if d := cmp.Diff(want.ContainerdConfig, generic(t, g.Spec.Containerd)); d != "" {
					t.Errorf("containerd of %s (-want +got):\n%s", g.Name, d)
				}
			}
		})
	}
	if compared == 0 {
		t.Error("no node configuration was compared")
	}
}

// generic returns a value as YAML represents it.
func generic(t *testing.T, v any) any {
	t.Helper()
	data, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := yamlv3.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCompletingTwiceChangesNothing(t *testing.T) {
	world, c := spectest.Facts(t, "testdata"), spectest.Stable(t)
	for name, dir := range goldentest.Cases(t, "update_cluster") {
		t.Run(name, func(t *testing.T) {
			cluster, groups := spectest.Read(t, goldentest.Read(t, dir, "in-v1alpha2.yaml"))
			in := complete.Input{Platform: platformtest.Of(cluster).ForComplete(), Cluster: cluster, Groups: groups, Facts: world, Channel: c, KopsVersion: "1.37.0"}
			once, _ := complete.Complete(in)
			in.Cluster, in.Groups = once.Spec, once.Groups
			twice, _ := complete.Complete(in)
			if d := cmp.Diff(once.Spec, twice.Spec); d != "" {
				t.Errorf("cluster (-once +twice):\n%s", d)
			}
			if d := cmp.Diff(once.Groups, twice.Groups); d != "" {
				t.Errorf("groups (-once +twice):\n%s", d)
			}
			if n := len(twice.Provenance.Cluster); n > 0 {
				t.Errorf("the second time %v are filled", slices.Collect(maps.Keys(twice.Provenance.Cluster)))
			}
		})
	}
}

func TestInputsAreNotChanged(t *testing.T) {
	data := goldentest.Read(t, "testdata/update_cluster/minimal-aws", "in-v1alpha2.yaml")
	cluster, groups := spectest.Read(t, data)
	complete.Complete(complete.Input{Platform: platformtest.Of(cluster).ForComplete(), Cluster: cluster, Groups: groups, Facts: spectest.Facts(t, "testdata"), Channel: spectest.Stable(t)})
	before, beforeGroups := spectest.Read(t, data)
	if d := cmp.Diff(before, cluster) + cmp.Diff(beforeGroups, groups); d != "" {
		t.Errorf("completion changed its input:\n%s", d)
	}
}

// BenchmarkComplete completes a cluster with 63 groups of nodes.
func BenchmarkComplete(b *testing.B) {
	data, err := os.ReadFile("testdata/update_cluster/minimal-aws/in-v1alpha2.yaml")
	if err != nil {
		b.Fatal(err)
	}
	in := complete.Input{Facts: &facts.Facts{Clouds: map[string]*facts.Cloud{"aws": {DNSZones: []facts.DNSZone{{Name: "example.com", ID: "Z"}}}}}}
	in.Cluster, in.Groups = spectest.Read(b, data)
	in.Platform = platformtest.Of(in.Cluster).ForComplete()
	for range 62 {
		in.Groups = append(in.Groups, in.Groups[0])
	}
	for b.Loop() {
		if _, findings := complete.Complete(in); findings.Err() != nil {
			b.Fatal(findings)
		}
	}
}
