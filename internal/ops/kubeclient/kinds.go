package kubeclient

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The resources that a Client knows, each by the clientset's name.
type (
	Nodes                           = Resource[*corev1.Node, *corev1.NodeList]
	Namespaces                      = Resource[*corev1.Namespace, *corev1.NamespaceList]
	Pods                            = Resource[*corev1.Pod, *corev1.PodList]
	Services                        = Resource[*corev1.Service, *corev1.ServiceList]
	Events                          = Resource[*corev1.Event, *corev1.EventList]
	ConfigMaps                      = Resource[*corev1.ConfigMap, *corev1.ConfigMapList]
	Secrets                         = Resource[*corev1.Secret, *corev1.SecretList]
	PersistentVolumes               = Resource[*corev1.PersistentVolume, *corev1.PersistentVolumeList]
	PersistentVolumeClaims          = Resource[*corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaimList]
	Deployments                     = Resource[*appsv1.Deployment, *appsv1.DeploymentList]
	ReplicaSets                     = Resource[*appsv1.ReplicaSet, *appsv1.ReplicaSetList]
	StatefulSets                    = Resource[*appsv1.StatefulSet, *appsv1.StatefulSetList]
	DaemonSets                      = Resource[*appsv1.DaemonSet, *appsv1.DaemonSetList]
	Jobs                            = Resource[*batchv1.Job, *batchv1.JobList]
	Leases                          = Resource[*coordinationv1.Lease, *coordinationv1.LeaseList]
	EndpointSlices                  = Resource[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList]
	PodDisruptionBudgets            = Resource[*policyv1.PodDisruptionBudget, *policyv1.PodDisruptionBudgetList]
	StorageClasses                  = Resource[*storagev1.StorageClass, *storagev1.StorageClassList]
	MutatingWebhookConfigurations   = Resource[*admissionv1.MutatingWebhookConfiguration, *admissionv1.MutatingWebhookConfigurationList]
	ValidatingWebhookConfigurations = Resource[*admissionv1.ValidatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfigurationList]
)

// Metadata is a resource of any kind; only the objects' metadata is read.
type Metadata = Resource[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList]

// Metadata returns the given resource.
func (c *Client) Metadata(r schema.GroupVersionResource, namespace string) Metadata {
	return Metadata{c, r, namespace}
}

// Nodes returns the nodes.
func (c *Client) Nodes() Nodes {
	return Nodes{c, corev1.SchemeGroupVersion.WithResource("nodes"), ""}
}

// Namespaces returns the namespaces.
func (c *Client) Namespaces() Namespaces {
	return Namespaces{c, corev1.SchemeGroupVersion.WithResource("namespaces"), ""}
}

// Pods returns the pods of a namespace, or of all namespaces.
func (c *Client) Pods(namespace string) Pods {
	return Pods{c, corev1.SchemeGroupVersion.WithResource("pods"), namespace}
}

// Services returns the services of a namespace, or of all namespaces.
func (c *Client) Services(namespace string) Services {
	return Services{c, corev1.SchemeGroupVersion.WithResource("services"), namespace}
}

// Events returns the events of a namespace, or of all namespaces.
func (c *Client) Events(namespace string) Events {
	return Events{c, corev1.SchemeGroupVersion.WithResource("events"), namespace}
}

// ConfigMaps returns the config maps of a namespace, or of all namespaces.
func (c *Client) ConfigMaps(namespace string) ConfigMaps {
	return ConfigMaps{c, corev1.SchemeGroupVersion.WithResource("configmaps"), namespace}
}

// Secrets returns the secrets of a namespace, or of all namespaces.
func (c *Client) Secrets(namespace string) Secrets {
	return Secrets{c, corev1.SchemeGroupVersion.WithResource("secrets"), namespace}
}

// PersistentVolumes returns the persistent volumes.
func (c *Client) PersistentVolumes() PersistentVolumes {
	return PersistentVolumes{c, corev1.SchemeGroupVersion.WithResource("persistentvolumes"), ""}
}

// PersistentVolumeClaims returns the persistent volume claims of a namespace, or of all namespaces.
func (c *Client) PersistentVolumeClaims(namespace string) PersistentVolumeClaims {
	return PersistentVolumeClaims{c, corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), namespace}
}

// Deployments returns the deployments of a namespace, or of all namespaces.
func (c *Client) Deployments(namespace string) Deployments {
	return Deployments{c, appsv1.SchemeGroupVersion.WithResource("deployments"), namespace}
}

// ReplicaSets returns the replica sets of a namespace, or of all namespaces.
func (c *Client) ReplicaSets(namespace string) ReplicaSets {
	return ReplicaSets{c, appsv1.SchemeGroupVersion.WithResource("replicasets"), namespace}
}

// StatefulSets returns the stateful sets of a namespace, or of all namespaces.
func (c *Client) StatefulSets(namespace string) StatefulSets {
	return StatefulSets{c, appsv1.SchemeGroupVersion.WithResource("statefulsets"), namespace}
}

// DaemonSets returns the daemon sets of a namespace, or of all namespaces.
func (c *Client) DaemonSets(namespace string) DaemonSets {
	return DaemonSets{c, appsv1.SchemeGroupVersion.WithResource("daemonsets"), namespace}
}

// Jobs returns the jobs of a namespace, or of all namespaces.
func (c *Client) Jobs(namespace string) Jobs {
	return Jobs{c, batchv1.SchemeGroupVersion.WithResource("jobs"), namespace}
}

// Leases returns the leases of a namespace, or of all namespaces.
func (c *Client) Leases(namespace string) Leases {
	return Leases{c, coordinationv1.SchemeGroupVersion.WithResource("leases"), namespace}
}

// EndpointSlices returns the endpoint slices of a namespace, or of all namespaces.
func (c *Client) EndpointSlices(namespace string) EndpointSlices {
	return EndpointSlices{c, discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), namespace}
}

// PodDisruptionBudgets returns the pod disruption budgets of a namespace, or of all namespaces.
func (c *Client) PodDisruptionBudgets(namespace string) PodDisruptionBudgets {
	return PodDisruptionBudgets{c, policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"), namespace}
}

// StorageClasses returns the storage classes.
func (c *Client) StorageClasses() StorageClasses {
	return StorageClasses{c, storagev1.SchemeGroupVersion.WithResource("storageclasses"), ""}
}

// MutatingWebhookConfigurations returns the mutating webhook configurations.
func (c *Client) MutatingWebhookConfigurations() MutatingWebhookConfigurations {
	return MutatingWebhookConfigurations{c, admissionv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations"), ""}
}

// ValidatingWebhookConfigurations returns the validating webhook configurations.
func (c *Client) ValidatingWebhookConfigurations() ValidatingWebhookConfigurations {
	return ValidatingWebhookConfigurations{c, admissionv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"), ""}
}
