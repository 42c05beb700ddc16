// Package emulator stands in for Google Cloud: Compute Engine, IAM, Cloud Resource Manager,
// Cloud DNS, the buckets of Cloud Storage, and the metadata server of instances, as far as
// a cluster of Kubernetes has to do with them. It keeps state, and has the manners that
// make Google's APIs what they are to a client: operations that go on after a call, objects
// that are in use, fingerprints and etags, quotas, and instances that come and go.
//
// Requests and answers are judged by Google's own description of the APIs, of package description.
// A method that Google has and this package does not implement is answered by 501.
//
// It must not know who asks, nor what a cluster is.
package emulator
