package api

import (
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Group is the API group of every kind here, and V1Alpha2 and V1Alpha3 are its versions.
const (
	Group    = "kops.k8s.io"
	V1Alpha2 = "v1alpha2"
	V1Alpha3 = "v1alpha3"
)

// Kinds of the group.
const (
	KindCluster       = "Cluster"
	KindInstanceGroup = "InstanceGroup"
	KindKeyset        = "Keyset"
	KindSSHCredential = "SSHCredential"
	KindHost          = "Host"
	KindChannel       = "Channel"
	KindAddons        = "Addons"
)

// Labels and annotations that kops reads or writes.
const (
	// LabelCluster is the label of an InstanceGroup and an SSHCredential that names their cluster.
	LabelCluster = "kops.k8s.io/cluster"
	// LabelInstanceGroup is the node label that names the machine's group.
	LabelInstanceGroup = "kops.k8s.io/instancegroup"
	// LabelMetalCloud is the label of a Cluster that makes it a bare-metal one if its value is "metal".
	// For a platform without a member in spec.cloudProvider, its value is the platform's name.
	LabelMetalCloud = "alpha.kops.k8s.io/cloud"
	// AnnotationManagement is "imported" on a cluster that kops did not create.
	AnnotationManagement = "kops.kubernetes.io/management"
	// AnnotationHardened is "true" on a cluster created with kops create cluster --hardened; see Cluster.IsHardened.
	AnnotationHardened = "kops.k8s.io/hardened"
	// AnnotationNeedsUpdate marks a Node whose machine a rolling update must replace.
	AnnotationNeedsUpdate = "kops.k8s.io/needs-update"
)

// Object is anything with a kind and a name: the kinds of this package, and
// unstructured objects of other groups.
type Object interface {
	metav1.Object
	runtime.Object
}

// Kind returns the kind of an object; for the types of this package, even if the object does not set it.
func Kind(o Object) string {
	switch o.(type) {
	case *Cluster:
		return KindCluster
	case *InstanceGroup:
		return KindInstanceGroup
	case *Keyset:
		return KindKeyset
	case *SSHCredential:
		return KindSSHCredential
	case *Host:
		return KindHost
	case *Channel:
		return KindChannel
	case *Addons:
		return KindAddons
	}
	return o.GetObjectKind().GroupVersionKind().Kind
}

// Name returns the name of an object in messages: Kind/name.
func Name(o Object) string { return Kind(o) + "/" + o.GetName() }

// IsHardened reports whether the settings without a field follow the CIS benchmark: the
// controller manager and the scheduler listen on the loopback address only,
// service account tokens expire at their stated time, and a new cluster that encrypts its
// etcd data gets a key. A cluster on this host is always hardened.
func (c *Cluster) IsHardened() bool {
	return c.Annotations[AnnotationHardened] == "true" || c.CloudProviderID() == CloudLocal
}

// DNSType returns where the cluster's names are published; Public if the spec does not set it.
func (s *ClusterSpec) DNSType() DNSType {
	if t := s.Networking.Topology; t != nil && t.DNS != "" {
		return t.DNS
	}
	return DNSPublic
}

// IPv6Only reports whether pods and services have IPv6 addresses only.
func (s *ClusterSpec) IPv6Only() bool {
	r, err := netip.ParsePrefix(s.Networking.NonMasqueradeCIDR)
	return err == nil && r.Addr().Is6()
}
