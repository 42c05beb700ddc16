package newcluster_test

import (
	"os"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/test/goldentest"
)

func storedCluster(t *testing.T) *api.Cluster {
	t.Helper()
	objects, _, err := compat.Decode(goldentest.Read(t, "testdata/create_cluster/minimal-1.36", "expected-v1alpha2.yaml"), compat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cluster, ok := objects[0].(*api.Cluster)
	if !ok {
		t.Fatalf("the first object is a %T", objects[0])
	}
	return cluster
}

func TestFieldsAreSetAsTheirTypesRequire(t *testing.T) {
	for _, c := range []struct {
		set, path string
		want      any
	}{
		{"spec.kubernetesVersion=1.30", "spec.kubernetesVersion", "1.30"},
		{"cluster.spec.kubeDNS.cacheMaxSize=10", "spec.kubeDNS.cacheMaxSize", 10},
		{"spec.sshAccess=10.0.0.0/8", "spec.sshAccess", []string{"10.0.0.0/8"}},
		{"spec.sshAccess=10.0.0.0/8, 11.0.0.0/8", "spec.sshAccess", []string{"10.0.0.0/8", "11.0.0.0/8"}},
		{"spec.sshAccess=", "spec.sshAccess", nil},
		{"spec.sshKeyName=", "spec.sshKeyName", ""},
		{`spec.sshKeyName="true"`, "spec.sshKeyName", "true"},
		{"spec.kubelet.anonymousAuth=true", "spec.kubelet.anonymousAuth", true},
		{"spec.kubelet.featureGates.X=false", "spec.kubelet.featureGates", map[string]string{"X": "false"}},
		{"spec.cloudLabels[example.com/a]=b=c", "spec.cloudLabels", map[string]string{"example.com/a": "b=c"}},
		{"spec.etcdClusters[*].version=3.6.5", "spec.etcdClusters[1].version", "3.6.5"},
		{"spec.etcdClusters[0].etcdMembers[0].volumeSize=40", "spec.etcdClusters[0].etcdMembers[0].volumeSize", 40},
		{"spec.etcdClusters[0].cpuRequest=250m", "spec.etcdClusters[0].cpuRequest", "250m"},
		{"spec.additionalSans[0]=a.example.com", "spec.additionalSans", []string{"a.example.com"}},
		{"spec.rollingUpdate.maxSurge=20%", "spec.rollingUpdate.maxSurge", "20%"},
		{"spec.rollingUpdate.maxSurge=2", "spec.rollingUpdate.maxSurge", 2},
		{"spec.kubeControllerManager.nodeMonitorPeriod=90s", "spec.kubeControllerManager.nodeMonitorPeriod", "1m30s"},
		{"spec.topology.dns.type=Private", "spec.topology.dns.type", "Private"},
		{"spec.networking.topology.dns=Private", "spec.topology.dns.type", "Private"}, // the path in v1alpha3
		{"spec.controlPlaneKubelet.maxPods=5", "spec.masterKubelet.maxPods", 5},
	} {
		got, findings := newcluster.Assign(storedCluster(t), []string{c.set}, nil)
		if err := findings.Err(); err != nil {
			t.Errorf("%s: %v", c.set, err)
			continue
		}
		compare(t, c.set, map[string]any{c.path: c.want}, got)
	}
}

func TestFieldsAreUnset(t *testing.T) {
	got, findings := newcluster.Assign(storedCluster(t), nil, []string{"spec.sshAccess[1]", "spec.etcdClusters[*].manager", "spec.kubelet.anonymousAuth", "spec.updatePolicy", "cluster.spec.api.loadBalancer.class"})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	compare(t, "cluster", map[string]any{
		"spec.sshAccess": []string{"0.0.0.0/0"}, "spec.etcdClusters[1].manager": nil, "spec.kubelet.anonymousAuth": nil, "spec.api.loadBalancer": map[string]any{"type": "Public"},
	}, got)
}

func TestValuesThatFlagsDividedAreWhole(t *testing.T) {
	sets := []string{"spec.sshAccess=10.0.0.0/8", "11.0.0.0/8", "spec.kubelet.evictionHard=memory.available<1Gi", "nodefs.available<10%", "spec.sshKeyName=k"}
	got, findings := newcluster.Assign(storedCluster(t), sets, nil)
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	compare(t, "cluster", map[string]any{
		"spec.sshAccess": []string{"10.0.0.0/8", "11.0.0.0/8"}, "spec.kubelet.evictionHard": "memory.available<1Gi,nodefs.available<10%", "spec.sshKeyName": "k",
	}, got)
	for forgotten, said := range map[string]string{"spec.kubelet.maxPods": "spec.kubelet.maxPods: ", "cluster.spec.kubelet.maxPods": "cluster.spec.kubelet.maxPods: ", "": ""} {
		_, findings = newcluster.Assign(storedCluster(t), []string{"spec.sshKeyName=k", forgotten}, nil)
		if want := said + "is not an assignment; write spec.path=value"; findings.Error() != want {
			t.Errorf("got %q, want %q", findings.Error(), want)
		}
	}
}

// FuzzAssign changes fields at any path; nothing may panic.
func FuzzAssign(f *testing.F) {
	for _, s := range []string{"spec.etcdClusters[*].version=3.6.5", "spec.cloudLabels[a.b]=c", "spec.subnets[1]={name: a}", "spec.sshAccess=a,b", "metadata.labels={}", "spec[0]=1", "spec.hooks[]="} {
		f.Add(s)
	}
	data, err := os.ReadFile("testdata/create_cluster/minimal-1.36/expected-v1alpha2.yaml")
	if err != nil {
		f.Fatal(err)
	}
	objects, _, err := compat.Decode(data, compat.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(_ *testing.T, s string) {
		newcluster.Assign(objects[1].(*api.InstanceGroup), []string{s}, []string{s})
	})
}

func TestBadAssignmentsChangeNothing(t *testing.T) {
	for set, want := range map[string]string{
		"spec.kubelet.maxPods=many":            `Cluster/minimal.example.com: spec.kubelet.maxPods: must be a whole number, not a string, got "many"`,
		"spec.kublet.maxPods=5":                `Cluster/minimal.example.com: spec.kublet: unknown field, got "5"; did you mean kubelet?`,
		"spec.topology.dns.type=public":        `Cluster/minimal.example.com: spec.topology.dns.type: unknown value, got "public"; did you mean Public? possible values: Public, Private, None`,
		"spec.sshAccess.x=5":                   `spec.sshAccess.x: the parent of "x" has no fields, got "5"; write spec.path=value; [n] is an element of a list, and [*] is all elements`,
		"spec.hooks[*].name=x":                 `spec.hooks[*].name: the list before [*] is empty, got "x"; write spec.path=value; [n] is an element of a list, and [*] is all elements`,
		"spec.kubeDNS.replicas=3":              `Cluster/minimal.example.com: spec.kubeDNS.replicas: no longer has an effect, got "3"`,
		"instancegroup.spec.kubelet.maxPods=5": `instancegroup.spec.kubelet.maxPods: "instancegroup.spec.kubelet.maxPods" is not a path such as spec.kubeDNS.provider, got "5"; write spec.path=value; [n] is an element of a list, and [*] is all elements`,
		"spec.kubelet[=x":                      `spec.kubelet[: "spec.kubelet[" has an empty or unclosed bracket, got "x"; write spec.path=value; [n] is an element of a list, and [*] is all elements`,
		"kubelet.maxPods=5":                    `kubelet.maxPods: "kubelet.maxPods" is not a path such as spec.kubeDNS.provider, got "5"; write spec.path=value; [n] is an element of a list, and [*] is all elements`,
		"spec.kubelet.=5":                      `spec.kubelet.: "spec.kubelet." is not a path such as spec.kubeDNS.provider, got "5"; write spec.path=value; [n] is an element of a list, and [*] is all elements`,
	} {
		before := storedCluster(t)
		got, findings := newcluster.Assign(before, []string{set}, nil)
		if text := findings.Error(); text != want {
			t.Errorf("%s\n got %s\nwant %s", set, text, want)
		}
		if got != before {
			t.Errorf("%s: the object was changed", set)
		}
	}
}
