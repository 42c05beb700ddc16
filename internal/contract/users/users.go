// Package users has the accounts of control-plane machines that own files read by containers of the
// control plane: a machine has the accounts, and manifests run containers as them.
//
// It must not know which files they may read.
package users

// Identifiers of accounts; /etc/passwd names them after their components.
const (
	Authenticator = 10000 // aws-iam-authenticator
	Controller    = 10011 // kops-controller
	Healthcheck   = 10012 // kube-apiserver-healthcheck
	Channels      = 10013 // kops-channels
)
