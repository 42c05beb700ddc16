// Package awscloud is what the two halves of AWS agree on: what makes a cluster's
// machines there, and the programs that run on them.
//
// It must not know how AWS is asked.
package awscloud

// ClusterTag is the key of the tag that names the cluster of an object.
const ClusterTag = "KubernetesCluster"

// LifecycleHook is the hook of an Auto Scaling group at which instances wait for nodeup.
const LifecycleHook = "kops-warmpool"

// ScalingGroup is the name of the Auto Scaling group and of the launch template of an
// instance group, whose role is as the API says it: ControlPlane, APIServer, Node or Bastion.
func ScalingGroup(group, role, cluster string) string {
	switch role {
	case "ControlPlane":
		return group + ".masters." + cluster
	case "APIServer":
		return group + ".apiservers." + cluster
	}
	return group + "." + cluster
}

// Controller is the section of AWS in the configuration of kops-controller.
type Controller struct {
	// NodesRoles are the names of the roles that machines have.
	NodesRoles []string `json:"nodesRoles"`
	// NodesProfiles are the roles that the machines' instance profiles give, by the profile's name.
	NodesProfiles map[string]string `json:"nodesProfiles"`
	Region        string            `json:"Region"`
}
