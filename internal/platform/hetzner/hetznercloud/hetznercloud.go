// Package hetznercloud has what the parts of Hetzner Cloud have in common: the labels by which the
// objects of a cluster are found, and the locations.
//
// It must not know how objects are created, nor how a machine or a user reaches the cloud.
package hetznercloud

import (
	"cmp"
	"strconv"

	"kops.local/kops/api"
)

// Labels of a cluster's objects, as in kOps.
const (
	// ClusterLabel has the name of the cluster.
	ClusterLabel = api.LabelCluster
	// GroupLabel has the instance group of a server, or of the server that a volume is for; RoleLabel
	// has its role.
	GroupLabel = "kops.k8s.io/instance-group"
	RoleLabel  = "kops.k8s.io/instance-role"
	// FirewallLabel has the role of the servers that a firewall protects.
	FirewallLabel = "kops.k8s.io/firewall-role"
	// VolumeLabel has the etcd cluster whose data a volume holds.
	VolumeLabel = "kops.k8s.io/volume-role"
	// NodeLabelPrefix is the prefix of the labels of a server that are labels of its node.
	NodeLabelPrefix = "node-label.kops.k8s.io."
	// AutoscalerLabel has the instance group for the cluster autoscaler.
	AutoscalerLabel = "hcloud/node-group"
	// ServiceLabel is on the load balancers that the cloud controller creates for Services.
	ServiceLabel = "hcloud-ccm/service-uid"
	// ReservedPrefix is the prefix of the labels that only Hetzner may set.
	ReservedPrefix = "hetzner.cloud/"
)

// ClaimScheme is the first word of the tokens with which servers name themselves to kops-controller. The
// second one is the server's number.
const ClaimScheme = "x-hetzner-id"

// ProviderPrefix precedes a server's number in the provider ID of its node.
const ProviderPrefix = "hcloud://"

// Environment variables.
const (
	// TokenVariable has an API token of the project.
	TokenVariable = "HCLOUD_TOKEN"
	// EndpointVariable has the URL of the API; empty: Hetzner's.
	EndpointVariable = "HCLOUD_ENDPOINT"
	// MetadataVariable has the URL of the metadata service of servers, up to its version; empty:
	// Hetzner's.
	MetadataVariable = "HCLOUD_METADATA"
)

// LabelMax is the maximum length of a label's value, and of the part of its key after the slash.
const LabelMax = 63

// Selector returns the label selector of the servers of a cluster that have a role.
func Selector(cluster string, role api.InstanceGroupRole) string {
	return ClusterLabel + "=" + cluster + "," + RoleLabel + "=" + string(role)
}

// GroupOf returns the instance group of a server with these labels; the cluster autoscaler labels its own.
func GroupOf(labels map[string]string) string {
	return cmp.Or(labels[GroupLabel], labels[AutoscalerLabel])
}

// BalancerName returns the name of the load balancer of a cluster's API.
func BalancerName(cluster string) string { return "api." + cluster }

// Zone returns the network zone of a location (Hetzner Cloud, "Locations"), or "" if there is no such
// location.
func Zone(location string) string {
	switch location {
	case "fsn1", "nbg1", "hel1":
		return "eu-central"
	case "ash":
		return "us-east"
	case "hil":
		return "us-west"
	case "sin":
		return "ap-southeast"
	}
	return ""
}

// ImageName returns how specs and servers name an image: by its name or, if it is a snapshot, which has
// none, by its number.
func ImageName(id int64, name string) string { return cmp.Or(name, strconv.FormatInt(id, 10)) }
