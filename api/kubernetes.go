package api

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// List is an API server's response to a request for the objects of a kind.
type List[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []T `json:"items"`
}

// DeepCopyObject returns a copy that shares nothing with l.
func (l *List[T]) DeepCopyObject() runtime.Object { return deepCopy(l) }

// AddToScheme registers the kinds that an API server can store, and their lists, for
// Kubernetes clients. The version is V1Alpha3, because the structs have its shape.
func AddToScheme(s *runtime.Scheme) error {
	version := schema.GroupVersion{Group: Group, Version: V1Alpha3}
	for kind, types := range map[string][2]runtime.Object{
		KindCluster:       {&Cluster{}, &List[Cluster]{}},
		KindInstanceGroup: {&InstanceGroup{}, &List[InstanceGroup]{}},
		KindKeyset:        {&Keyset{}, &List[Keyset]{}},
		KindSSHCredential: {&SSHCredential{}, &List[SSHCredential]{}},
		KindHost:          {&Host{}, &List[Host]{}},
	} {
		s.AddKnownTypeWithName(version.WithKind(kind), types[0])
		s.AddKnownTypeWithName(version.WithKind(kind+"List"), types[1])
	}
	metav1.AddToGroupVersion(s, version)
	return nil
}

// DeepCopy returns a copy that shares nothing with c.
func (c *Cluster) DeepCopy() *Cluster { return deepCopy(c) }

// DeepCopyObject is DeepCopy for Kubernetes clients.
func (c *Cluster) DeepCopyObject() runtime.Object { return deepCopy(c) }

// DeepCopy returns a copy that shares nothing with g.
func (g *InstanceGroup) DeepCopy() *InstanceGroup { return deepCopy(g) }

// DeepCopyObject is DeepCopy for Kubernetes clients.
func (g *InstanceGroup) DeepCopyObject() runtime.Object { return deepCopy(g) }

// DeepCopy returns a copy that shares nothing with k.
func (k *Keyset) DeepCopy() *Keyset { return deepCopy(k) }

// DeepCopyObject is DeepCopy for Kubernetes clients.
func (k *Keyset) DeepCopyObject() runtime.Object { return deepCopy(k) }

// DeepCopy returns a copy that shares nothing with s.
func (s *SSHCredential) DeepCopy() *SSHCredential { return deepCopy(s) }

// DeepCopyObject is DeepCopy for Kubernetes clients.
func (s *SSHCredential) DeepCopyObject() runtime.Object { return deepCopy(s) }

// DeepCopy returns a copy that shares nothing with h.
func (h *Host) DeepCopy() *Host { return deepCopy(h) }

// DeepCopyObject is DeepCopy for Kubernetes clients.
func (h *Host) DeepCopyObject() runtime.Object { return deepCopy(h) }

// DeepCopy returns a copy that shares nothing with c.
func (c *Channel) DeepCopy() *Channel { return deepCopy(c) }

// DeepCopyObject is DeepCopy for Kubernetes clients.
func (c *Channel) DeepCopyObject() runtime.Object { return deepCopy(c) }

// DeepCopy returns a copy that shares nothing with a.
func (a *Addons) DeepCopy() *Addons { return deepCopy(a) }

// DeepCopyObject is DeepCopy for Kubernetes clients.
func (a *Addons) DeepCopyObject() runtime.Object { return deepCopy(a) }

// deepCopy copies through JSON, which preserves everything that a document can hold. It
// panics on an object that JSON cannot represent: that is a programming error.
func deepCopy[T any](in *T) *T {
	if in == nil {
		return nil
	}
	data, err := json.Marshal(in)
	if err != nil {
		panic(fmt.Sprintf("copy %T: %v", in, err))
	}
	out := new(T)
	if err := json.Unmarshal(data, out); err != nil {
		panic(fmt.Sprintf("copy %T: %v", in, err))
	}
	return out
}
