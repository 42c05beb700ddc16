// Package gcecloud is what the two halves of Google's cloud agree on: what makes a cluster's
// machines there, and the programs that run on them.
//
// It must not know how the cloud is asked.
package gcecloud

import "strings"

// Labels.
const (
	// ClusterLabel is the label of instances, disks and forwarding rules with the name of their
	// cluster, as Label writes it.
	ClusterLabel = "k8s-io-cluster-name"
	// GroupLabel is the label of instances with their instance group.
	GroupLabel = "k8s-io-instance-group"
	// RolePrefix begins the label of a role, whose value is the role, and EtcdPrefix the label of
	// a disk of an etcd cluster.
	RolePrefix = "k8s-io-role-"
	EtcdPrefix = "k8s-io-etcd-"
)

// Metadata of an instance and its template.
const (
	// MetadataCluster and MetadataGroup are the name of the cluster, dots included, and of the instance group.
	MetadataCluster = "cluster-name"
	MetadataGroup   = "kops-k8s-io-instance-group-name"
	// MetadataCreatedBy and MetadataTemplate are by which Google says what managed instance group made an
	// instance, projects/NUMBER/zones/ZONE/instanceGroupManagers/NAME, and of which template.
	MetadataCreatedBy = "created-by"
	MetadataTemplate  = "instance-template"
	// MetadataUserData and MetadataScript are what an instance starts with: cloud-init's, or Google's own.
	MetadataUserData = "user-data"
	MetadataScript   = "startup-script"
	// MetadataSSHKeys are who may log in, and MetadataScaler what the autoscaler knows of nodes that are not there.
	MetadataSSHKeys = "ssh-keys"
	MetadataScaler  = "kube-env"
)

// Label is the name of a cluster as labels have it.
func Label(cluster string) string { return strings.ReplaceAll(cluster, ".", "-") }

// Controller is the section of Google's cloud in the configuration of kops-controller.
type Controller struct {
	ProjectID   string `json:"projectID"`
	Region      string `json:"region"`
	ClusterName string `json:"clusterName"`
	// MaxTimeSkew is how far a machine's clock may be from the controller's, in seconds; 0: 300.
	MaxTimeSkew int64 `json:"MaxTimeSkew"`
}
