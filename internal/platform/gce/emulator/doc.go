// Package emulator emulates Google Cloud: Compute Engine, IAM, Cloud Resource Manager, Cloud DNS,
// the buckets of Cloud Storage, and the metadata server of instances, as far as a Kubernetes
// cluster uses them. It keeps state, and reproduces the behaviour that clients of Google's APIs
// have to handle: operations that continue after a call, objects in use, fingerprints and etags,
// quotas, and instances that come and go.
//
// Requests and responses are checked against Google's own description of the APIs, in package
// description. A method of Google's that this package does not implement returns 501.
//
// It must not know who its clients are, nor what a cluster is.
package emulator
