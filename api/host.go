package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Host is a user's machine that has been enrolled in a bare-metal cluster, in the namespace kops-system.
type Host struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec HostSpec `json:"spec,omitzero"`
}

// Annotations of a Host, specific to kops: its SSH destination, as USER@ADDRESS:PORT; its SSH
// host key, as in authorized_keys(5); and the address at which other machines reach it.
const (
	AnnotationSSH     = "ssh.kops.k8s.io/login"
	AnnotationSSHKey  = "ssh.kops.k8s.io/host-key"
	AnnotationAddress = "ssh.kops.k8s.io/address"
)

// HostSpec identifies the machine.
type HostSpec struct {
	// PublicKey is the key by which it authenticates, in PEM.
	PublicKey string `json:"publicKey,omitempty"`
	// InstanceGroup is the group it belongs to.
	InstanceGroup string `json:"instanceGroup,omitempty"`
	// PodCIDRs are the ranges of its pods.
	PodCIDRs []string `json:"podCIDRs,omitempty"`
}
