//go:build !unix

package store

import (
	"context"
	"os"
)

// lock does nothing: this system cannot lock a folder. Conditions of writes hold
// between the calls of one writer, but not between concurrent writers.
func lock(ctx context.Context, _ *os.File) error { return ctx.Err() }

// syncFolder does nothing: this system keeps names durable itself.
func syncFolder(*os.File) error { return nil }

// inode returns 0: files are distinguished by size and time here.
func inode(os.FileInfo) uint64 { return 0 }
