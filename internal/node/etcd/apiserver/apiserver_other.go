//go:build !linux

package apiserver

import "context"

// Stop does nothing: control planes run Linux.
func Stop(context.Context, string, string) ([]int, error) { return nil, nil }

// EncryptionConfig returns nothing: control planes run Linux.
func EncryptionConfig(string) ([]byte, bool, error) { return nil, false, nil }
