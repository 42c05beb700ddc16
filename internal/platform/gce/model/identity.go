package model

import (
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/gce/kinds"
)

// The roles that accounts get.
const (
	roleServiceAgent = "roles/container.serviceAgent" // in the project
	roleObjectAdmin  = "roles/storage.objectAdmin"    // in buckets
	roleObjectViewer = "roles/storage.objectViewer"
)

// accountName is how the account of a role is called among the cluster's: all machines with
// an API server have one.
func accountName(r api.InstanceGroupRole) string {
	switch r {
	case api.RoleNode:
		return gcename.Node
	case api.RoleBastion:
		return gcename.Bastion
	}
	return gcename.ControlPlane
}

// email is the address of the account that machines of a role act as.
func (m *model) email(r api.InstanceGroupRole) resource.Value {
	if given := m.gce.ServiceAccount; given != "" {
		return resource.Lit(given)
	}
	return kinds.ServiceAccounts.Out(accountName(r), "email")
}

// identities are an account for each role in use, and what they may do. Where the spec names
// an account, somebody else says what that may do.
func (m *model) identities() ([]resource.Node, error) {
	if m.gce.ServiceAccount != "" {
		return nil, nil
	}
	descriptions := map[string]string{gcename.ControlPlane: "kubernetes control-plane instances", gcename.Node: "kubernetes worker nodes", gcename.Bastion: "bastion nodes"}
	var nodes []resource.Node
	for _, name := range []string{gcename.ControlPlane, gcename.Node, gcename.Bastion} {
		if slices.ContainsFunc(m.Groups, func(g *api.InstanceGroup) bool { return accountName(g.Spec.Role) == name }) {
			nodes = append(nodes, kinds.ServiceAccounts.New(name, kinds.ServiceAccount{
				AccountID: gcename.Account(name, m.name), Project: m.project, Description: descriptions[name], DisplayName: name}))
		}
	}
	if len(m.servers()) == 0 {
		return nodes, nil
	}
	member := resource.Concat(resource.Lit("serviceAccount:"), m.email(api.RoleControlPlane))
	nodes = append(nodes, kinds.ProjectMembers.New("serviceaccount-"+gcename.ControlPlane,
		kinds.ProjectMember{Project: m.project, Role: roleServiceAgent, Member: member}))
	return append(nodes, m.bucketRights(member)...), nil
}

// bucketRights let the machines with an API server write the back-ups of etcd, and read what
// else of the cluster is in buckets of Google's. Where others have said so already, the
// user's credentials need not suffice to look.
func (m *model) bucketRights(member resource.Value) []resource.Node {
	var written, read []string
	for _, e := range m.spec.EtcdClusters {
		if e.Backups != nil {
			written = appendBucket(written, e.Backups.BackupStore)
		}
	}
	for _, url := range []string{m.spec.ConfigStore.Base, m.spec.ConfigStore.Keypairs, m.spec.ConfigStore.Secrets} {
		read = appendBucket(read, url)
	}
	var nodes []resource.Node
	add := func(right, role, bucket string) {
		n := kinds.BucketMembers.New(right+"-"+bucket+"-serviceaccount-controlplane", kinds.BucketMember{Bucket: bucket, Role: role, Member: member})
		n.Lenient = true
		nodes = append(nodes, n)
	}
	for _, bucket := range written {
		add("objectadmin", roleObjectAdmin, bucket)
	}
	for _, bucket := range read {
		if !slices.Contains(written, bucket) {
			add("objectviewer", roleObjectViewer, bucket)
		}
	}
	return nodes
}

// appendBucket adds the bucket of a store, where it is one of Google's that is not there yet.
func appendBucket(to []string, url string) []string {
	rest, google := strings.CutPrefix(url, "gs://")
	bucket, _, _ := strings.Cut(rest, "/")
	if !google || bucket == "" || slices.Contains(to, bucket) {
		return to
	}
	return append(to, bucket)
}
