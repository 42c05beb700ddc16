// Package gcecloud is the contract between the two sides of Google Cloud: the code that creates a
// cluster's machines, and the programs that run on them.
//
// It must not know how the cloud's APIs are called.
package gcecloud

import "strings"

// Labels.
const (
	// ClusterLabel is the label of instances, disks and forwarding rules with their cluster's name,
	// as returned by Label.
	ClusterLabel = "k8s-io-cluster-name"
	// GroupLabel is the label of instances with their instance group.
	GroupLabel = "k8s-io-instance-group"
	// RolePrefix is the prefix of role labels, whose value is the role, and EtcdPrefix the prefix
	// of the label of an etcd cluster's disk.
	RolePrefix = "k8s-io-role-"
	EtcdPrefix = "k8s-io-etcd-"
)

// Metadata of an instance and its template.
const (
	// MetadataCluster and MetadataGroup hold the name of the cluster, with its dots, and the name
	// of the instance group.
	MetadataCluster = "cluster-name"
	MetadataGroup   = "kops-k8s-io-instance-group-name"
	// MetadataCreatedBy and MetadataTemplate are set by Google: the managed instance group that
	// created an instance, projects/NUMBER/zones/ZONE/instanceGroupManagers/NAME, and its template.
	MetadataCreatedBy = "created-by"
	MetadataTemplate  = "instance-template"
	// MetadataUserData and MetadataScript hold what an instance runs at boot, in cloud-init's or
	// Google's own key.
	MetadataUserData = "user-data"
	MetadataScript   = "startup-script"
	// MetadataSSHKeys holds the keys that may log in, and MetadataScaler what the autoscaler needs
	// to know about nodes that do not exist yet.
	MetadataSSHKeys = "ssh-keys"
	MetadataScaler  = "kube-env"
)

// Label returns the name of a cluster in the form that labels use.
func Label(cluster string) string { return strings.ReplaceAll(cluster, ".", "-") }

// Controller is the Google Cloud section of kops-controller's configuration.
type Controller struct {
	ProjectID   string `json:"projectID"`
	Region      string `json:"region"`
	ClusterName string `json:"clusterName"`
	// MaxTimeSkew is the maximum difference between a machine's clock and the controller's, in
	// seconds; 0: 300.
	MaxTimeSkew int64 `json:"MaxTimeSkew"`
}
