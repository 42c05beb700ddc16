package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keyset is a named set of key pairs. One of them, the primary, signs; the others are still trusted.
type Keyset struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec KeysetSpec `json:"spec,omitzero"`
}

// KeysetType is the type of the items of a Keyset.
type KeysetType string

const (
	// KeysetKeypair is a certificate with its private key.
	KeysetKeypair KeysetType = "Keypair"
	// KeysetSecret is opaque bytes; not written by kops.
	KeysetSecret KeysetType = "Secret"
)

// KeysetSpec holds the items.
type KeysetSpec struct {
	Type KeysetType `json:"type,omitempty" enum:"Keypair|Secret"`
	// PrimaryID is the ID of the item that signs.
	PrimaryID string `json:"primaryID,omitempty"`
	// Keys are in ascending order of their IDs.
	Keys []KeysetItem `json:"keys,omitempty"`
}

// KeysetItem is one key pair.
type KeysetItem struct {
	// ID is the serial number of the certificate, in decimal.
	ID string `json:"id,omitempty"`
	// DistrustTimestamp is the time when the item stopped being trusted; nil while it is trusted.
	DistrustTimestamp *metav1.Time `json:"distrustTimestamp,omitempty"`
	// PublicMaterial is the certificate, in PEM.
	PublicMaterial []byte `json:"publicMaterial,omitempty"`
	// PrivateMaterial is the private key, in PEM.
	PrivateMaterial []byte `json:"privateMaterial,omitempty"`
}
