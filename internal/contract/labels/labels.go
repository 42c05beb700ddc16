// Package labels has the labels of nodes from which programs in a cluster learn what the nodes are
// for, and the annotations with which machines report what they run and are asked to run something
// else. The label of their instance group is api.LabelInstanceGroup. It also has the labels by which
// the objects of add-ons are found again.
//
// It must not know who sets or reads a label or an annotation.
package labels

// Labels without a value.
const (
	ControlPlane = "node-role.kubernetes.io/control-plane"
	APIServer    = "node-role.kubernetes.io/api-server"
	Node         = "node-role.kubernetes.io/node"
	// Controller means that the machine has the key material of kops-controller.
	Controller = "kops.k8s.io/kops-controller-pki"
	// NoLoadBalancer excludes a node from load balancers of Services (Kubernetes).
	NoLoadBalancer = "node.kubernetes.io/exclude-from-external-load-balancers"
)

// Owned is a label whose value confirms the annotation with the same name, see kops-controller:
// kubelets may set annotations of their nodes, but no labels of this kind (Kubernetes,
// "NodeRestriction").
const Owned = "kops.k8s.io/owned"

// ScheduledForUpdate is the taint of nodes that a rollout is going to replace, which new pods avoid
// if possible.
const ScheduledForUpdate = "kops.k8s.io/scheduled-for-update"
