// Package controller is kops-controller, which serves the machines of a cluster
// from its control plane: it lets them join, maintains the labels of their nodes,
// assigns pod address ranges to nodes where only the cloud knows these ranges, and
// removes the nodes of machines that are gone, so that they cannot come back.
//
// It must not know any cloud's SDK (a bootstrap.Verifier determines a machine's
// identity), and it never hands out a private key: it certifies keys that machines
// generated.
package controller
