//go:build !linux

package network

import (
	"errors"
	"net/netip"
)

// Bridge is an interface of this host that joins a cluster's machines.
type Bridge struct {
	Name    string
	Address netip.Prefix
	// Routes are ranges that lie behind machines, each with the machine's address.
	Routes map[string]string
}

// Find is for Linux only.
func Find(string) (Bridge, bool, error) { return Bridge{}, false, errors.ErrUnsupported }

// Ensure is for Linux only.
func Ensure(string, netip.Prefix) error { return errors.ErrUnsupported }

// SetAddresses is for Linux only.
func SetAddresses(string, []netip.Prefix) error { return errors.ErrUnsupported }

// Route is for Linux only.
func Route(string, map[string]string) error { return errors.ErrUnsupported }

// Routed is for Linux only.
func Routed() ([]netip.Prefix, error) { return nil, errors.ErrUnsupported }

// Refuse is for Linux only.
func Refuse(netip.Prefix, []string) ([]Conflict, error) { return nil, errors.ErrUnsupported }

// Refused is for Linux only.
func Refused(netip.Prefix, []string) ([]string, error) { return nil, errors.ErrUnsupported }

// Remove is for Linux only.
func Remove(string) error { return errors.ErrUnsupported }
