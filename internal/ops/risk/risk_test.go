package risk_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/ops/risk"
)

// disk is a resource that holds data or, if it has a group, machines.
type disk struct {
	Name  string
	Group string
	Holds string
}

var disks = resource.Kind[disk, any]{
	Name:  "disk",
	Group: func(d *disk) string { return d.Group },
	Holds: func(d *disk) string { return d.Holds },
}

func deletionPlan(d ...*disk) *plan.Plan {
	p := &plan.Plan{}
	for _, x := range d {
		p.Steps = append(p.Steps, plan.Step{Op: plan.Delete, Address: resource.Address{Kind: "disk", Name: x.Name}, Kind: disks.Erase(), Have: x})
	}
	return p
}

// creationPlan is a plan that creates keysets.
func creationPlan(names ...string) *plan.Plan {
	p := &plan.Plan{}
	for _, n := range names {
		p.Steps = append(p.Steps, plan.Step{Op: plan.Create, Address: resource.Address{Kind: "keyset", Name: n}})
	}
	return p
}

func cluster(version string, change ...func(*api.ClusterSpec)) *api.Cluster {
	c := &api.Cluster{}
	c.Name, c.Spec.KubernetesVersion = "a.example.com", version
	c.Spec.Networking.Calico = &api.CalicoNetworkingSpec{}
	for _, f := range change {
		f(&c.Spec)
	}
	return c
}

func open(ranges ...string) func(*api.ClusterSpec) {
	return func(s *api.ClusterSpec) { s.API.Access = ranges }
}

func TestRisks(t *testing.T) {
	replaced := deletionPlan(&disk{Name: "main", Holds: "data of etcd main"})
	replaced.Steps = append(replaced.Steps, plan.Step{Op: plan.Create, Replaces: true, Have: replaced.Steps[0].Have})
	control := []*api.InstanceGroup{{Spec: api.InstanceGroupSpec{Role: api.RoleControlPlane}}}
	control[0].Name = "control"
	for _, c := range []struct {
		name string
		in   risk.In
		want []string
	}{
		{"nothing", risk.In{Applied: cluster("1.36.3"), Now: cluster("1.36.4")}, nil},
		{"another pod network", risk.In{Applied: cluster("1.36.3"), Now: cluster("1.36.3", func(s *api.ClusterSpec) {
			s.Networking.Calico, s.Networking.Cilium = nil, &api.CiliumNetworkingSpec{}
		})}, []string{"pod-network-changed spec.networking from calico to cilium"}},
		{"an older Kubernetes", risk.In{Applied: cluster("1.36.3"), Now: cluster("1.35.4")}, []string{"kubernetes-downgraded spec.kubernetesVersion from 1.36.3 to 1.35.4"}},
		{"another issuer", risk.In{Applied: cluster("1.36.3"), Now: cluster("1.36.3"), Issuer: "https://a", NewIssuer: "https://b"},
			[]string{"issuer-changed spec.kubeAPIServer.serviceAccountIssuer from https://a to https://b: tokens of running pods are refused"}},
		{"another issuer beside the old one", risk.In{Applied: cluster("1.36.3"), Issuer: "https://a", NewIssuer: "https://b", Now: cluster("1.36.3", func(s *api.ClusterSpec) {
			s.KubeAPIServer = &api.KubeAPIServerConfig{AdditionalServiceAccountIssuers: []string{"https://a"}}
		})}, []string{"issuer-changed spec.kubeAPIServer.serviceAccountIssuer from https://a to https://b: roles of the cloud"}},
		{"the issuer of a new cluster", risk.In{Now: cluster("1.36.3"), NewIssuer: "https://b"}, nil},
		{"a further issuer", risk.In{Now: cluster("1.36.3"), NewIssuer: "https://a", Applied: cluster("1.36.3", func(s *api.ClusterSpec) {
			s.KubeAPIServer = &api.KubeAPIServerConfig{AdditionalServiceAccountIssuers: []string{"https://a", "https://old"}}
		})}, []string{"issuer-refused spec.kubeAPIServer.additionalServiceAccountIssuers of the issuers https://old"}},
		{"the file of a policy", risk.In{Now: cluster("1.36.3", policy("/etc/a", "")), Applied: cluster("1.36.3", policy("/etc/a", "/etc/a"))}, []string{"audit-file-missing spec.fileAssets no file of the cluster is /etc/a"}},
		{"another policy without a file", risk.In{Now: cluster("1.36.3", policy("/etc/b", "/etc/a")), Applied: cluster("1.36.3", policy("/etc/a", "/etc/a"))}, []string{"audit-file-missing spec.fileAssets no file of the cluster is /etc/b"}},
		{"a policy of the image", risk.In{Now: cluster("1.36.3", policy("/etc/a", "")), Applied: cluster("1.36.3", policy("/etc/a", ""))}, nil},
		{"another content of a policy", risk.In{Now: cluster("1.36.3", policy("/etc/a", "/etc/a")), Applied: cluster("1.36.3", policy("/etc/a", "/etc/a"), func(s *api.ClusterSpec) { s.FileAssets[0].Content = "old" })},
			[]string{"audit-changed spec.fileAssets[0].content the audit policy /etc/a changes"}},
		{"no log of a policy that stays", risk.In{Now: cluster("1.36.3", policy("/etc/a", "/etc/a"), unlogged), Applied: cluster("1.36.3", policy("/etc/a", "/etc/a"))}, []string{"audit-removed spec.kubeAPIServer no longer record"}},
		{"no policy of a log that stays", risk.In{Now: cluster("1.36.3", policy("", "")), Applied: cluster("1.36.3", policy("/etc/a", "/etc/a"))}, []string{"audit-removed spec.kubeAPIServer no longer record"}},
		{"a webhook instead of a log", risk.In{Now: cluster("1.36.3", policy("/etc/a", "/etc/a"), unlogged, webhook("/etc/w", "w")), Applied: cluster("1.36.3", policy("/etc/a", "/etc/a"))}, nil},
		{"another encryption configuration", risk.In{NewEncryption: true, Now: cluster("1.36.3", encrypted), Applied: cluster("1.36.3", encrypted)}, []string{"encryption-changed spec.encryptionConfig whose key it lacks"}},
		{"the first encryption configuration", risk.In{NewEncryption: true, Now: cluster("1.36.3", encrypted), Applied: cluster("1.36.3")}, nil},
		{"names, audit and encryption", risk.In{Now: cluster("1.36.3", func(s *api.ClusterSpec) { s.API.AdditionalSANs = []string{"kept"} }), Applied: cluster("1.36.3", func(s *api.ClusterSpec) {
			on, path := true, "/var/log/audit"
			s.API.AdditionalSANs, s.EncryptionConfig, s.KubeAPIServer = []string{"kept", "gone"}, &on, &api.KubeAPIServerConfig{AuditLogPath: &path, AuditPolicyFile: "/etc/a"}
		})}, []string{"api-name-removed spec.api.additionalSANs loses the names gone", "audit-removed spec.kubeAPIServer no longer record", "encryption-removed spec.encryptionConfig cannot read them"}},
		{"a new cluster that is open", risk.In{Now: cluster("1.36.3", open("0.0.0.0/0", "::/0", "10.0.0.0/8"))},
			[]string{"api-open spec.kubernetesApiAccess everyone: 0.0.0.0/0, ::/0"}},
		{"one that was open before", risk.In{Applied: cluster("1.36.3", open("0.0.0.0/0")), Now: cluster("1.36.3", open("0.0.0.0/0"))}, nil},
		{"one that is opened by halves", risk.In{Applied: cluster("1.36.3"), Now: cluster("1.36.3", open("0.0.0.0/1", "128.0.0.0/1"))},
			[]string{"api-open spec.kubernetesApiAccess everyone: 0.0.0.0/1, 128.0.0.0/1"}},
		{"one that is reached from inside only", risk.In{Now: cluster("1.36.3", open("0.0.0.0/0"), func(s *api.ClusterSpec) {
			s.API.LoadBalancer = &api.LoadBalancerAccessSpec{Type: api.LoadBalancerInternal}
		})}, nil},
		{"a platform that bounds nothing", risk.In{Unbounded: true, Now: cluster("1.36.3", open("0.0.0.0/0"))}, nil},
		{"SSH", risk.In{Applied: cluster("1.36.3"), Now: cluster("1.36.3", func(s *api.ClusterSpec) { s.SSHAccess = []string{"0.0.0.0/0", "pl-1"} })},
			[]string{"ssh-open spec.sshAccess 0.0.0.0/0"}},
		{"data and machines", risk.In{Plan: deletionPlan(&disk{Name: "main", Holds: "data of etcd main"}, &disk{Name: "nodes", Group: "nodes", Holds: "2 machines"}, &disk{Name: "empty"})},
			[]string{"data-deleted  data of etcd main", "group-removed  2 machines"}},
		{"new keys of a cluster that had them", risk.In{Applied: cluster("1.36.3"), Now: cluster("1.36.3"), Plan: creationPlan("kubernetes-ca", "etcd-peers-ca-cilium")},
			[]string{"keys-lost  missing from the state store"}},
		{"new keys of a new cluster", risk.In{Now: cluster("1.36.3"), Plan: creationPlan("kubernetes-ca")}, nil},
		{"what is replaced", risk.In{Plan: replaced}, nil},
		{"one of three of the control plane", risk.In{Now: cluster("1.36.3"), Groups: control, Replaced: map[string]int{"control": 1, "nodes": 9}, Machines: map[string]int{"control": 3}},
			[]string{"control-plane-replaced  1 of 3 control plane machines"}},
		{"the only one of the control plane", risk.In{Now: cluster("1.36.3"), Groups: control, Replaced: map[string]int{"control": 1}, Machines: map[string]int{"control": 1}},
			[]string{"control-plane-replaced  the API does not answer meanwhile"}},
		{"nodes alone", risk.In{Now: cluster("1.36.3"), Groups: control, Replaced: map[string]int{"nodes": 9}}, nil},
	} {
		check(t, c.name, c.in, c.want)
	}
}

// check compares the risks with lines of a code, a path and a part of the message.
func check(t *testing.T, name string, in risk.In, lines []string) {
	t.Helper()
	if in.Plan == nil {
		in.Plan = &plan.Plan{}
	}
	got := risk.Of(in)
	match := len(got) == len(lines)
	for i := 0; match && i < len(got); i++ {
		f, want := got[i], strings.SplitN(lines[i], " ", 3)
		match = f.Rule == want[0] && f.Path == want[1] && strings.Contains(f.Message, want[2]) && f.Warning && f.Object != ""
	}
	if !match {
		t.Errorf("%s: %s, want %q", name, fmt.Sprint(got), lines)
	}
}

// encrypted makes API servers encrypt stored objects.
func encrypted(s *api.ClusterSpec) {
	on := true
	s.EncryptionConfig = &on
}

// TestEveryCodeIsExplained checks that the page about plans explains every code, as programs rely
// on codes.
func TestEveryCodeIsExplained(t *testing.T) {
	page, err := os.ReadFile("../../../docs/plans.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range risk.Codes() {
		if !strings.Contains(string(page), "| `"+code+"` |") {
			t.Errorf("docs/plans.md does not explain %s", code)
		}
	}
}
