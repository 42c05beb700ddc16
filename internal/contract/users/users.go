// Package users holds the accounts of control plane machines that own what containers
// of the control plane read: a machine has them, and a manifest runs as one of them.
//
// It must not know what any of them may read.
package users

// Identifiers of accounts; /etc/passwd names them after their components.
const (
	Authenticator = 10000 // aws-iam-authenticator
	Controller    = 10011 // kops-controller
	Healthcheck   = 10012 // kube-apiserver-healthcheck
	Channels      = 10013 // kops-channels
)
