// Package api holds the objects that users write and the store keeps: Cluster,
// InstanceGroup, Keyset, SSHCredential, Host, and the files Channel and Addons.
// Each is one Go struct in the shape of version v1alpha3 of the group
// kops.k8s.io; package compat reads and writes the other versions.
//
// Struct tags carry what other packages need to know about a field: json is its
// name, flag the command line flag of the component that it sets, enum its
// allowed values, and cloud the only one that supports it.
// It must not know how a spec is completed, checked or stored, nor how a cloud implements it.
package api
