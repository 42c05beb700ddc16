// Package gcecloud is what the two halves of Google's cloud agree on: what makes a cluster's
// machines there, and the programs that run on them.
//
// It must not know how the cloud is asked.
package gcecloud

import "strings"

const (
	// ClusterLabel is the label of instances and disks with the name of their cluster, as Label writes it.
	ClusterLabel = "k8s-io-cluster-name"
	// MetadataCluster and MetadataGroup are the metadata of an instance and its template
	// with the name of the cluster, dots included, and of the instance group.
	MetadataCluster = "cluster-name"
	MetadataGroup   = "kops-k8s-io-instance-group-name"
	// MetadataCreatedBy is the metadata by which Google says which managed instance group made
	// an instance: projects/NUMBER/zones/ZONE/instanceGroupManagers/NAME.
	MetadataCreatedBy = "created-by"
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
