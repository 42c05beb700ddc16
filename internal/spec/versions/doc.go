// Package versions reads what a release channel recommends: Kubernetes versions
// for new and for running clusters, the versions of kops itself that are too
// old, and machine images. Copies of the channels are embedded, so that no
// network is needed.
//
// It must not know how a channel's file is fetched, nor what a cluster does with
// a recommendation.
package versions
