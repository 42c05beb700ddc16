//go:build !linux

package apiserver

import "context"

// End does nothing: control planes run Linux.
func End(context.Context, string) ([]int, error) { return nil, nil }
