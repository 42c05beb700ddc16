package model

import (
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/gce/kinds"
)

// The roles that accounts are granted.
const (
	roleServiceAgent = "roles/container.serviceAgent" // in the project
	roleObjectAdmin  = "roles/storage.objectAdmin"    // in buckets
	roleObjectViewer = "roles/storage.objectViewer"
)

// accountName returns the name of a role's account among the cluster's: all machines with an API
// server share one.
func accountName(r api.InstanceGroupRole) string {
	switch r {
	case api.RoleNode:
		return gcename.Node
	case api.RoleBastion:
		return gcename.Bastion
	}
	return gcename.ControlPlane
}

// email returns the address of the account that machines of a role use.
func (m *model) email(r api.InstanceGroupRole) resource.Value {
	if given := m.gce.ServiceAccount; given != "" {
		return resource.Lit(given)
	}
	return kinds.ServiceAccounts.Out(accountName(r), "email")
}

// identities returns an account for each role in use, and its permissions. If the spec names an
// account, its permissions are managed elsewhere.
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

// bucketRights allows machines with an API server to write etcd backups, and to read the cluster's
// other data, in Google Cloud Storage buckets. The grants are lenient: if they exist already, the
// user's credentials need not be allowed to read the policy.
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

// appendBucket adds the bucket of a store if it is a Google bucket that is not in the list yet.
func appendBucket(to []string, url string) []string {
	rest, google := strings.CutPrefix(url, "gs://")
	bucket, _, _ := strings.Cut(rest, "/")
	if !google || bucket == "" || slices.Contains(to, bucket) {
		return to
	}
	return append(to, bucket)
}
