//go:build !unix

package store

import (
	"context"
	"os"
)

// lock does nothing: this system cannot lock a folder. Conditions of writes hold
// between the calls of one writer, but not between two that write at once.
func lock(ctx context.Context, _ *os.File) error { return ctx.Err() }

// syncFolder does nothing: this system keeps names durable by itself.
func syncFolder(*os.File) error { return nil }

// inode is not known here; size and time tell files apart.
func inode(os.FileInfo) uint64 { return 0 }
