// Package peer is how the managers of an etcd cluster find and talk to one
// another: JSON over HTTPS, where both sides prove who they are with a
// certificate of the authority etcd-manager-ca.
//
// It must not know what the managers decide.
package peer

import (
	"context"

	"kops.local/kops/internal/node/etcd"
)

// Hello introduces a manager, and tells whom it has heard of.
type Hello struct {
	// Cluster is the name of the etcd cluster; managers of another are not talked to.
	Cluster string          `json:"cluster"`
	Peer    etcd.Peer       `json:"peer"`
	Known   []etcd.Sighting `json:"known,omitempty"`
}

// Order is what the leader wants done: exactly one of Run and Stop.
type Order struct {
	// Leadership is the token of a claim that the receiver has agreed with.
	Leadership string     `json:"leadership"`
	Run        *etcd.Run  `json:"run,omitempty"`
	Stop       *etcd.Stop `json:"stop,omitempty"`
}

// Service is what one manager does for another. Errors keep their class of
// package fault on the way.
type Service interface {
	// Hello answers a greeting with the receiver's own.
	Hello(ctx context.Context, from Hello) (Hello, error)
	// Claim agrees with a claim to lead, and answers with the receiver as it is now;
	// or it does not, with an error of class fault.Conflict.
	Claim(ctx context.Context, c etcd.Claim) (etcd.Peer, error)
	// Order carries out an order. If its leadership token differs from the one of the last
	// accepted claim, the error has class fault.Conflict.
	Order(ctx context.Context, o Order) error
}

// Link reaches the service at an endpoint, host:port.
type Link interface {
	At(endpoint string) Service
}
