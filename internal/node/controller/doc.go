// Package controller is kops-controller, which serves the machines of a cluster
// from its control plane: it lets them join, keeps the labels of their nodes,
// gives these ranges of addresses for pods where only the cloud knows them, and
// removes the nodes of machines that are gone, so that these do not come back.
//
// It must not know a cloud's SDK (who a machine is, a bootstrap.Verifier tells),
// and it never hands out a private key: it certifies keys that machines made.
package controller
