package labels

// Labels of the objects of add-ons.
const (
	// Addon has the name of the object's add-on.
	Addon = "addon.kops.k8s.io/name"
	// ManagedBy has the value Kops on the objects of kops' own add-ons (Kubernetes, "Recommended
	// Labels"), and PodManagedBy has it on their pods.
	ManagedBy    = "app.kubernetes.io/managed-by"
	PodManagedBy = "kops.k8s.io/managed-by"
	Kops         = "kops"
)
