//go:build !linux

package apiserver

import "context"

// End does nothing: control planes run Linux.
func End(context.Context, string, string) ([]int, error) { return nil, nil }

// EncryptionConfig knows nothing: control planes run Linux.
func EncryptionConfig(string) ([]byte, bool, error) { return nil, false, nil }
