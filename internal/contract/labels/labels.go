// Package labels holds the labels of nodes by which what runs in a cluster knows what
// the nodes are for, and the annotations by which machines tell what they run and are
// told what to run. The label of their instance group is api.LabelInstanceGroup.
//
// It must not know who sets or reads a label or an annotation.
package labels

// Labels without a value.
const (
	ControlPlane = "node-role.kubernetes.io/control-plane"
	APIServer    = "node-role.kubernetes.io/api-server"
	Node         = "node-role.kubernetes.io/node"
	// Controller says that the machine has the key material of kops-controller.
	Controller = "kops.k8s.io/kops-controller-pki"
	// NoLoadBalancer keeps load balancers of Services away (Kubernetes).
	NoLoadBalancer = "node.kubernetes.io/exclude-from-external-load-balancers"
)

// Owned is a label whose value vouches for the annotation of the same name, see
// kops-controller: kubelets may set annotations of their nodes, and no labels of this kind
// (Kubernetes, "NodeRestriction").
const Owned = "kops.k8s.io/owned"

// ScheduledForUpdate is the taint of nodes that a rollout is going to replace, which new pods rather avoid.
const ScheduledForUpdate = "kops.k8s.io/scheduled-for-update"
