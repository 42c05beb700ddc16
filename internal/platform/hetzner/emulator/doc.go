// Package emulator emulates Hetzner Cloud: servers, networks, firewalls, load balancers, volumes, SSH
// keys, placement groups, DNS zones, actions, and the metadata service of servers, as far as a
// Kubernetes cluster uses them. It keeps state, and reproduces the behaviour that clients of the API
// have to handle: actions that continue after a call, locked objects, names that are taken, limits,
// pages, label selectors.
//
// Requests and responses are checked against a description of the API, which documents/ holds: the one
// that Hetzner publishes, with its schemas named, cut to these objects. A method that this package does
// not implement returns 501.
//
// It must not know who its clients are, nor what a cluster is.
package emulator
