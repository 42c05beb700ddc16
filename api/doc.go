// Package api holds the objects that users write and the store keeps: Cluster,
// InstanceGroup, Keyset, SSHCredential, Host, and the files Channel and Addons.
// Each is one Go struct in the shape of version v1alpha3 of the group
// kops.k8s.io; package compat reads and writes the other versions.
//
// Struct tags carry what other packages need to know of a field: json is its
// name, flag the command line flag of the component that it sets, enum the
// values that it takes, and cloud the only one that heeds it.
//
// It must not know how a spec is completed, checked or stored, nor what a cloud makes of it.
package api
