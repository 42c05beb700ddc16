// Package cloudsuite is the conformance suite of clouds: it runs kops as its user does, against what
// stands in for a cloud's APIs, behind a proxy that counts, delays, refuses, loses and cuts requests.
// A cloud describes itself in e2e/<cloud>/cloud_test.go, and says there what its stand-in cannot do.
//
// It must not know any cloud, nor how it is stood in for.
package cloudsuite
