package spec_test

import (
	"slices"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/metal/spec"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/spec/validate"
	"kops.local/kops/internal/spec/versions"
)

// describeCluster returns a new cluster on bare metal.
func describeCluster(t *testing.T, o newcluster.Options) (*api.Cluster, []*api.InstanceGroup) {
	t.Helper()
	p := spec.Platform()
	ch, _ := versions.Embedded(versions.Stable)
	o.ClusterName, o.CloudProvider, o.Zones, o.Networking = "a.example.com", "metal", []string{"here"}, "kubenet"
	c, groups, findings := newcluster.New(o, newcluster.World{Platform: p.ForNew(), Complete: p.ForComplete(), Channel: ch, KopsVersion: "1.37.0", Facts: &facts.Facts{Clouds: map[string]*facts.Cloud{"metal": {Architecture: "amd64"}}}})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return c, groups
}

func completeCluster(t *testing.T, o newcluster.Options) *complete.Cluster {
	t.Helper()
	c, groups := describeCluster(t, o)
	p := spec.Platform()
	done, findings := complete.Complete(complete.Input{Platform: p.ForComplete(), Cluster: c, Groups: groups, Facts: &facts.Facts{Clouds: map[string]*facts.Cloud{"metal": {Architecture: "amd64"}}}, KopsVersion: "1.37.0", ConfigBase: "file:///state/a.example.com"})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return done
}

func TestANewClusterOnBareMetal(t *testing.T) {
	c, groups := describeCluster(t, newcluster.Options{})
	if c.CloudProviderID() != api.CloudMetal || c.Labels[api.LabelMetalCloud] != "metal" || c.Spec.CloudProvider != (api.CloudProviderSpec{}) || c.Spec.API.LoadBalancer != nil {
		t.Errorf("the cluster is on %q, with %+v and %+v", c.CloudProviderID(), c.Labels, c.Spec.CloudProvider)
	}
	var names []string
	for _, g := range groups {
		names = append(names, g.Name)
		if g.Spec.Image != "dummy-metal-image" || g.Spec.MachineType != "" {
			t.Errorf("the machines of %s are %q of %q", g.Name, g.Spec.Image, g.Spec.MachineType)
		}
	}
	if !slices.Equal(names, []string{"control-plane-here", "nodes-here"}) {
		t.Errorf("the groups are %v", names)
	}
	three, groups := describeCluster(t, newcluster.Options{ControlPlaneCount: 3})
	if len(groups) != 4 || len(three.Spec.EtcdClusters[0].EtcdMembers) != 3 {
		t.Errorf("%d groups, etcd has %+v", len(groups), three.Spec.EtcdClusters[0].EtcdMembers)
	}
}

// kops does not warn about what it has described itself.
func TestANewClusterHasNoFieldsWithoutEffect(t *testing.T) {
	c, groups := describeCluster(t, newcluster.Options{ControlPlaneCount: 3})
	p := spec.Platform()
	if found := validate.NoEffect(&p.Traits, c, groups); len(found) > 0 {
		t.Error(found)
	}
}

func TestComponentsKnowNoCloud(t *testing.T) {
	s := completeCluster(t, newcluster.Options{}).Spec.Spec
	if s.Kubelet.CloudProvider != "" || s.KubeControllerManager.CloudProvider != "" || *s.KubeControllerManager.ConfigureCloudRoutes {
		t.Errorf("the kubelet has %q, the controller manager %q", s.Kubelet.CloudProvider, s.KubeControllerManager.CloudProvider)
	}
}

func TestWhatIsRefusedOnBareMetal(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*api.Cluster, []*api.InstanceGroup)
		paths  []string
	}{
		"nothing":    {func(*api.Cluster, []*api.InstanceGroup) {}, nil},
		"a bucket":   {func(c *api.Cluster, _ []*api.InstanceGroup) { c.Spec.ConfigStore.Base = "s3://b/x" }, []string{"spec.configBase", "spec.keyStore", "spec.secretStore"}},
		"keys apart": {func(c *api.Cluster, _ []*api.InstanceGroup) { c.Spec.ConfigStore.Keypairs = "file:///keys" }, []string{"spec.keyStore"}},
		"secrets":    {func(c *api.Cluster, _ []*api.InstanceGroup) { c.Spec.ConfigStore.Secrets = "file:///keys" }, []string{"spec.secretStore"}},
		"backups": {func(c *api.Cluster, _ []*api.InstanceGroup) {
			c.Spec.EtcdClusters[1].Backups = &api.EtcdBackupSpec{BackupStore: "s3://b/x"}
		}, []string{"spec.etcdClusters[1].backups.backupStore"}},
		"user data": {func(_ *api.Cluster, g []*api.InstanceGroup) {
			g[0].Spec.AdditionalUserData = []api.UserData{{Name: "x", Type: "text/x-shellscript", Content: "x"}}
		}, []string{"spec.additionalUserData"}},
		"a fixed name": {func(c *api.Cluster, _ []*api.InstanceGroup) { c.Spec.API.PublicName = "10.0.0.100" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			done := completeCluster(t, newcluster.Options{})
			tt.change(done.Spec, done.Groups)
			p := spec.Platform()
			var got []string
			for _, f := range validate.All(validate.Input{Platform: p.ForValidate(), Cluster: done.Spec, Groups: done.Groups}) {
				if strings.HasPrefix(f.Rule, "metal-") {
					got = append(got, f.Path)
				}
			}
			if slices.Sort(got); !slices.Equal(got, tt.paths) {
				t.Errorf("found %v, want %v", got, tt.paths)
			}
		})
	}
}

func TestAFixedAddress(t *testing.T) {
	c := &api.Cluster{}
	for name, want := range map[string]bool{"": false, "api.example.com": false, "10.0.0.100": true, "fd00::1": true} {
		c.Spec.API.PublicName = name
		if at, ok := spec.FixedAddress(c); ok != want || ok && at != name {
			t.Errorf("%q: %q, %t", name, at, ok)
		}
	}
}
