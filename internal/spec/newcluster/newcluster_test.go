package newcluster_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/providers"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/test/goldentest"
	"kops.local/kops/internal/test/platformtest"
	"kops.local/kops/internal/test/spectest"
)

func world(t *testing.T) newcluster.World {
	t.Helper()
	return newcluster.World{Facts: spectest.Facts(t, "testdata"), Channel: spectest.Stable(t), KopsVersion: "1.37.0-alpha.1"}
}

// cloudDefaults sets what the clouds of the goldens offer beyond facts: the AWS of these cases
// offers none of the usual machine types but older ones, and the OpenStack has one flavor.
func cloudDefaults(o *newcluster.Options) {
	sizes := func(p *[]string, name string) {
		if len(*p) == 0 {
			*p = []string{name}
		}
	}
	switch o.CloudProvider {
	case "aws":
		sizes(&o.ControlPlaneSizes, "m3.medium")
		sizes(&o.NodeSizes, "t2.medium")
	case "openstack":
		sizes(&o.ControlPlaneSizes, "n1-standard-1")
		sizes(&o.NodeSizes, "n1-standard-1")
	}
}

// TestNewClustersEqualTheGoldens leaves two things out of the comparison: the bastion's type on AWS
// (see cloudDefaults), and the image of the case apiserver-gce, which was created with the channel
// of an earlier year.
func TestNewClustersEqualTheGoldens(t *testing.T) {
	w := world(t)
	for name, dir := range goldentest.Cases(t, "create_cluster") {
		t.Run(name, func(t *testing.T) {
			o := spectest.Options(t, goldentest.Read(t, dir, "options.yaml"))
			o.ConfigBase = "memfs://tests/" + o.ClusterName
			cloudDefaults(&o)
			cluster, groups, findings := newcluster.New(o, withPlatform(w, o))
			if err := findings.Err(); err != nil {
				t.Fatal(err)
			}
			made := metav1.NewTime(time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC))
			cluster.CreationTimestamp = made
			slices.SortFunc(groups, func(a, b *api.InstanceGroup) int { return cmp.Compare(a.Name, b.Name) })
			objects := []api.Object{cluster}
			for _, g := range groups {
				g.CreationTimestamp = made
				if g.IsBastion() && o.CloudProvider == "aws" {
					g.Spec.MachineType = "t2.micro"
				}
				if name == "apiserver-gce" {
					g.Spec.Image = "ubuntu-os-cloud/ubuntu-2404-noble-amd64-v20250606"
				}
				objects = append(objects, g)
			}
			got, err := compat.Encode(api.V1Alpha2, objects...)
			if err != nil {
				t.Fatal(err)
			}
			if d := goldentest.Diff(t, goldentest.Read(t, dir, "expected-v1alpha2.yaml"), got); d != "" {
				t.Errorf("new cluster (-want +got):\n%s", d)
			}
		})
	}
}

// withPlatform returns the world with the platform that the options name.
func withPlatform(w newcluster.World, o newcluster.Options) newcluster.World {
	p := platformtest.Named(o.CloudProvider)
	w.Platform, w.Complete = p.ForNew(), p.ForComplete()
	for _, p := range providers.All(platform.World{}) {
		w.Platforms = append(w.Platforms, string(p.Name))
	}
	return w
}
