// Package awscloud defines what the two halves of AWS support agree on: the code that creates a
// cluster's machines, and the programs that run on them.
//
// It must not know how AWS is called.
package awscloud

// ClusterTag is the key of the tag that names the cluster of an object.
const ClusterTag = "KubernetesCluster"

// LifecycleHook is the hook of an Auto Scaling group that makes instances wait for nodeup.
const LifecycleHook = "kops-warmpool"

// ScalingGroup returns the name of an instance group's Auto Scaling group and launch template. The
// role is spelled as in the API: ControlPlane, APIServer, Node or Bastion.
func ScalingGroup(group, role, cluster string) string {
	switch role {
	case "ControlPlane":
		return group + ".masters." + cluster
	case "APIServer":
		return group + ".apiservers." + cluster
	}
	return group + "." + cluster
}

// Controller is the AWS section of the configuration of kops-controller.
type Controller struct {
	// NodesRoles are the names of the machines' IAM roles.
	NodesRoles []string `json:"nodesRoles"`
	// NodesProfiles maps the names of the machines' instance profiles to the roles in them.
	NodesProfiles map[string]string `json:"nodesProfiles"`
	Region        string            `json:"Region"`
}
