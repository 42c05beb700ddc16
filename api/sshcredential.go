package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SSHCredential is a public key that may log in to the machines of a cluster; its name is "admin".
type SSHCredential struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec SSHCredentialSpec `json:"spec,omitzero"`
}

// SSHCredentialSpec holds the key.
type SSHCredentialSpec struct {
	// PublicKey is one line as in authorized_keys.
	PublicKey string `json:"publicKey,omitempty"`
}
