// Package peer defines how the managers of an etcd cluster find and talk to one
// another: JSON over HTTPS, where both sides prove their identity with a
// certificate of the authority etcd-manager-ca.
//
// It must not know what the managers decide.
package peer

import (
	"context"

	"kops.local/kops/internal/node/etcd"
)

// Hello introduces a manager, and lists the peers it has heard of.
type Hello struct {
	// Cluster is the name of the etcd cluster; managers of other clusters are ignored.
	Cluster string          `json:"cluster"`
	Peer    etcd.Peer       `json:"peer"`
	Known   []etcd.Sighting `json:"known,omitempty"`
}

// Order is an order of the leader: exactly one of Run and Stop.
type Order struct {
	// Leadership is the token of a claim that the receiver has accepted.
	Leadership string     `json:"leadership"`
	Run        *etcd.Run  `json:"run,omitempty"`
	Stop       *etcd.Stop `json:"stop,omitempty"`
}

// Service is what one manager does for another. Errors keep their class of package
// fault in transit.
type Service interface {
	// Hello answers a greeting with the receiver's own.
	Hello(ctx context.Context, from Hello) (Hello, error)
	// Claim accepts a claim to lead, and returns the receiver with its current state;
	// or it rejects it, with an error of class fault.Conflict.
	Claim(ctx context.Context, c etcd.Claim) (etcd.Peer, error)
	// Order carries out an order. If its leadership token is not the last accepted
	// claim's, the error has class fault.Conflict.
	Order(ctx context.Context, o Order) error
}

// Link returns the service at an endpoint, host:port.
type Link interface {
	Service(endpoint string) Service
}
