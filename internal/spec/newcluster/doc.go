// Package newcluster makes the short spec of a new cluster and its groups from the
// options of `kops create cluster`, the spec of a new group from the options of `kops
// create instancegroup`, and sets single fields of a spec by their paths.
//
// It must not look anything up, write anything, nor know flags: what the cloud
// knows comes in as facts, and what the user said as options.
package newcluster
