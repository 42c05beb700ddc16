//go:build !linux

package network

import (
	"errors"
	"net/netip"
)

// Bridge is an interface of this host that connects a cluster's machines.
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

// Label is for Linux only.
func Label(string, string) error { return errors.ErrUnsupported }

// LabelOf is for Linux only.
func LabelOf(string) (string, error) { return "", errors.ErrUnsupported }

// SetAddresses is for Linux only.
func SetAddresses(string, []netip.Prefix) error { return errors.ErrUnsupported }

// Route is for Linux only.
func Route(string, map[string]string) error { return errors.ErrUnsupported }

// RoutedNetworks is for Linux only.
func RoutedNetworks() ([]netip.Prefix, error) { return nil, errors.ErrUnsupported }

// RejectRanges is for Linux only.
func RejectRanges(netip.Prefix, []string) ([]Conflict, error) { return nil, errors.ErrUnsupported }

// RejectedRanges is for Linux only.
func RejectedRanges(netip.Prefix, []string) ([]string, error) { return nil, errors.ErrUnsupported }

// HasLinkKind is for Linux only.
func HasLinkKind(string) (bool, error) { return false, errors.ErrUnsupported }

// HasESP is for Linux only.
func HasESP() (bool, error) { return false, errors.ErrUnsupported }

// Remove is for Linux only.
func Remove(string) error { return errors.ErrUnsupported }
