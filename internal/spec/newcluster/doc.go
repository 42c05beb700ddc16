// Package newcluster creates the short spec of a new cluster and its groups from the options of
// `kops create cluster`, and of a new group from the options of `kops create instancegroup`, and
// sets single fields of a spec by their paths.
//
// It must not look anything up, write anything, nor know flags: information from the cloud comes in
// as facts, and what the user specified as options.
package newcluster
