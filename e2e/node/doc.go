// Package node holds no code: its tests boot a machine of the local cloud and
// work on it from inside, as nodeup does, with its own systemd and packages.
package node
