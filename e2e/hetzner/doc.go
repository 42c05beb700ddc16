// Package hetzner runs kops as its user does, against an emulator of Hetzner Cloud that is validated by
// Hetzner's own description of its API.
package hetzner
