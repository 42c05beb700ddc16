// Package joinsuite is the contract between a cloud and the machines of a cluster in it: on Linux, it boots
// the machines that the cloud's stand-in has created, with their own user data and nodeup, in a
// sandbox. A control plane starts from the state store, serves kops-controller and an API server, and
// finds the disk of etcd; a worker proves its identity, gets its configuration and its certificates, and
// registers a node, which gets its labels.
//
// Kubelets, pod networks and cloud controllers do not run. It is for tests only, and must not know any
// cloud, nor how it is stood in for.
package joinsuite
