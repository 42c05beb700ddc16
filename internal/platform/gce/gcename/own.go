package gcename

import "kops.local/kops/internal/model/names"

// The words with which the machines of a cluster are told apart in tags and accounts.
const (
	ControlPlane = "control-plane"
	Master       = "master"
	APIServer    = "apiserver"
	Node         = "node"
	Bastion      = "bastion"
)

// Keys of labels and metadata.
const (
	LabelCluster    = "k8s-io-cluster-name"             // its value is Label
	LabelEtcdPrefix = "k8s-io-etcd-"                    // followed by the name of an etcd cluster
	MetadataCluster = "cluster-name"                    // its value is the cluster's name
	MetadataGroup   = "kops-k8s-io-instance-group-name" // its value is the instance group's name
)

// Label is a cluster's name as the value of a label. It is never cut.
func Label(cluster string) string { return names.Dashed(cluster) }

// Tags are the network tags that a cluster's machines have.
func Tags(cluster string) []string {
	out := []string{ControlPlane, Master, APIServer, Node, Bastion}
	for i, role := range out {
		out[i] = Tag(role, cluster)
	}
	return out
}

// Part is what stands before the cluster in a name that Suffixed gives; ok is false where
// Suffixed does not give it. Clusters whose names begin or end alike may each give it.
func Part(name, cluster string) (object string, ok bool) {
	for i := range name {
		if name[i] == '-' && i > 0 && Suffixed(name[:i], cluster) == name {
			return name[:i], true
		}
	}
	return "", false
}
