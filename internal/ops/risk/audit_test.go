package risk_test

import (
	"encoding/base64"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/ops/risk"
)

// policy sets a log and the file of the audit policy, and the path of a file of the cluster.
func policy(audit, file string) func(*api.ClusterSpec) {
	return func(s *api.ClusterSpec) {
		log := "/var/log/audit"
		s.KubeAPIServer = &api.KubeAPIServerConfig{AuditPolicyFile: audit, AuditLogPath: &log}
		if file != "" {
			s.FileAssets = []api.FileAssetSpec{{Path: file}}
		}
	}
}

// unlogged removes the log.
func unlogged(s *api.ClusterSpec) { s.KubeAPIServer.AuditLogPath = nil }

// webhook sets the file of the audit webhook, and adds it.
func webhook(file, content string) func(*api.ClusterSpec) {
	return func(s *api.ClusterSpec) {
		s.KubeAPIServer.AuditWebhookConfigFile = file
		s.FileAssets = append(s.FileAssets, api.FileAssetSpec{Path: file, Content: content})
	}
}

// files replaces the files of the cluster.
func files(list ...api.FileAssetSpec) func(*api.ClusterSpec) {
	return func(s *api.ClusterSpec) { s.FileAssets = list }
}

func file(path, content string, roles ...api.InstanceGroupRole) api.FileAssetSpec {
	return api.FileAssetSpec{Name: "x", Path: path, Content: content, Roles: roles}
}

// group is a group with files.
func group(name string, role api.InstanceGroupRole, list ...api.FileAssetSpec) *api.InstanceGroup {
	g := &api.InstanceGroup{Spec: api.InstanceGroupSpec{Role: role, FileAssets: list}}
	g.Name = name
	return g
}

// An audit file is the file that machines with an API server get, by role, group and path, and its
// decoded content counts.
func TestAuditFilesAreThoseOfAPIServers(t *testing.T) {
	const p, w = "/etc/a", "/etc/w"
	encoded := api.FileAssetSpec{Path: p, Content: base64.StdEncoding.EncodeToString([]byte("old")), IsBase64: true}
	type groups = []*api.InstanceGroup
	audited := func(more ...func(*api.ClusterSpec)) *api.Cluster {
		return cluster("1.36.3", append([]func(*api.ClusterSpec){policy(p, "")}, more...)...)
	}
	moved := func(s *api.ClusterSpec) { s.KubeAPIServer.AuditPolicyFile = "/etc/b" }
	onlyOf := func(roles ...api.InstanceGroupRole) api.FileAssetSpec { return file(p, "new", roles...) }
	for _, c := range []struct {
		name     string
		was, now *api.Cluster
		old, new groups // not known if nil
		want     []string
	}{
		{"the same text in base64", audited(files(file(p, "old"))), audited(files(encoded)), nil, nil, nil},
		{"another text in base64", audited(files(file(p, "other"))), audited(files(encoded)), nil, nil, []string{"audit-changed spec.fileAssets[0].content the audit policy /etc/a"}},
		{"a webhook", audited(files(file(p, "old")), webhook(w, "a")), audited(files(file(p, "old")), webhook(w, "b")), nil, nil,
			[]string{"audit-changed spec.fileAssets[1].content the configuration of the audit webhook /etc/w"}},
		{"both", audited(files(file(p, "old")), webhook(w, "a")), audited(files(file(p, "new")), webhook(w, "b")), nil, nil,
			[]string{"audit-changed spec.fileAssets[0].content /etc/a", "audit-changed spec.fileAssets[1].content /etc/w"}},
		{"another path with another content", audited(files(file(p, "old"))), audited(moved, files(file("/etc/b", "new"))), nil, nil,
			[]string{"audit-changed spec.fileAssets[0].content the audit policy /etc/b"}},
		{"another path with the same content", audited(files(file(p, "old"))), audited(moved, files(file("/etc/b", "old"))), nil, nil, nil},
		{"another spelling of the path", audited(files(file(p, "old"))), audited(files(file("/etc/../etc//a", "old"))), nil, nil, nil},
		{"a file without a path", audited(files(file("", "old"))), cluster("1.36.3", policy("/srv/kubernetes/assets/x", ""), files(file("", "old"))), nil, nil, nil},
		{"the control plane's file behind that of nodes", audited(files(onlyOf(api.RoleNode), file(p, "old", api.RoleControlPlane))),
			audited(files(onlyOf(api.RoleNode), file(p, "new", api.RoleControlPlane))), nil, nil, []string{"audit-changed spec.fileAssets[1].content /etc/a"}},
		{"only the nodes' file", audited(files(file(p, "old", api.RoleNode), file(p, "same", api.RoleControlPlane))),
			audited(files(file(p, "new", api.RoleNode), file(p, "same", api.RoleControlPlane))), nil, nil, nil},
		{"a file that only nodes get", cluster("1.36.3"), audited(files(onlyOf(api.RoleNode))), nil, nil, []string{"audit-file-missing spec.fileAssets no file of the cluster is /etc/a"}},
		{"a file of the group", audited(), audited(), groups{group("cp", api.RoleControlPlane, file(p, "old"))}, groups{group("cp", api.RoleControlPlane, file(p, "new"))},
			[]string{"audit-changed spec.fileAssets[0].content /etc/a"}},
		{"the file of one of two groups", audited(files(file(p, "old"))), audited(files(file(p, "old"))),
			groups{group("a", api.RoleControlPlane), group("b", api.RoleControlPlane)}, groups{group("a", api.RoleControlPlane), group("b", api.RoleControlPlane, file(p, "new"))},
			[]string{"audit-changed spec.fileAssets[0].content /etc/a"}},
		{"a file of the cluster for several groups", audited(files(file(p, "old"))), audited(files(file(p, "new"))),
			groups{group("a", api.RoleControlPlane), group("b", api.RoleAPIServer)}, groups{group("a", api.RoleControlPlane), group("b", api.RoleAPIServer)},
			[]string{"audit-changed spec.fileAssets[0].content /etc/a"}},
		{"the file of API servers alone", audited(files(file(p, "old", api.RoleControlPlane), file(p, "old", api.RoleAPIServer))), audited(files(file(p, "old", api.RoleControlPlane), file(p, "new", api.RoleAPIServer))),
			groups{group("a", api.RoleControlPlane), group("b", api.RoleAPIServer)}, groups{group("a", api.RoleControlPlane), group("b", api.RoleAPIServer)},
			[]string{"audit-changed spec.fileAssets[1].content /etc/a"}},
		{"a file that moves from the cluster to its group", audited(files(file(p, "old"))), audited(), groups{group("cp", api.RoleControlPlane)}, groups{group("cp", api.RoleControlPlane, file(p, "old"))}, nil},
		{"the file of a new group", audited(), audited(), groups{group("a", api.RoleControlPlane, file(p, "old"))},
			groups{group("a", api.RoleControlPlane, file(p, "old")), group("b", api.RoleControlPlane, file(p, "old"))}, nil},
		{"a new group without the file", audited(), audited(), groups{group("a", api.RoleControlPlane, file(p, "old"))},
			groups{group("a", api.RoleControlPlane, file(p, "old")), group("b", api.RoleControlPlane)}, []string{"audit-file-missing spec.fileAssets no file of the group or of the cluster is /etc/a"}},
		{"new auditing with a file of the group", cluster("1.36.3"), audited(), groups{group("cp", api.RoleControlPlane)}, groups{group("cp", api.RoleControlPlane, file(p, "new"))}, nil},
		{"a file of nodes", cluster("1.36.3"), audited(), groups{group("nodes", api.RoleNode)}, groups{group("cp", api.RoleControlPlane), group("nodes", api.RoleNode, file(p, "new"))},
			[]string{"audit-file-missing spec.fileAssets no file of the cluster is /etc/a"}},
		{"a group's file that is gone", audited(), audited(), groups{group("cp", api.RoleControlPlane, file(p, "old"))}, groups{group("cp", api.RoleControlPlane)},
			[]string{"audit-file-missing spec.fileAssets no file of the cluster is /etc/a"}},
		{"both files that are gone", audited(files(file(p, "old")), webhook(w, "a")), audited(func(s *api.ClusterSpec) { s.KubeAPIServer.AuditWebhookConfigFile = w }), nil, nil,
			[]string{"audit-file-missing spec.fileAssets /etc/a", "audit-file-missing spec.fileAssets /etc/w"}},
		{"groups that are not known", audited(files(file(p, "old"))), audited(files(file(p, "old"))), nil, groups{group("cp", api.RoleControlPlane, file(p, "new"))}, nil},
	} {
		in := risk.In{Applied: c.was, Now: c.now, Groups: c.new}
		if c.old != nil {
			in.AppliedGroups = map[string]*api.InstanceGroup{}
			for _, g := range c.old {
				in.AppliedGroups[g.Name] = g
			}
		}
		check(t, c.name, in, c.want)
	}
}
