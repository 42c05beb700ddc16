// Package node holds no code: its tests boot a machine of the local cloud and
// configure it from inside, as nodeup does, with its own systemd and packages.
package node
