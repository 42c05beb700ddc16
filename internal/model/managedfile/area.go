// Package managedfile declares the kinds of files that kops keeps for a cluster in object stores:
// files written at each update, and files such as keysets that are created once and never changed.
//
// It must not know the contents of the files, nor any store: a caller provides functions that list,
// read and write.
package managedfile

import (
	"context"
)

// Info is what a listing reports about one file.
type Info struct {
	Key string // below the area
	// Digest is the hexadecimal MD5 of the content; empty if it is not known. A digest that differs
	// from a content's MD5 does not prove that the file has another content: some stores report a
	// digest of something else.
	Digest string
}

// Options specify how a file is written.
type Options struct {
	IfAbsent   bool // fails with fault.Conflict if the file exists
	Private    bool // only the owner may read it
	PublicRead bool // everyone may read it
}

// Area is a folder of a store. Its functions take keys below the folder; their
// errors have classes of package fault.
type Area struct {
	// Store is the store as files refer to it: a bucket, or a URL.
	Store string
	// Prefix is the folder's key in the store: empty, or ending in a slash.
	Prefix string
	// List returns every file below the folder. The result may be cached as long as nothing was
	// written.
	List   func(context.Context) ([]Info, error)
	Read   func(ctx context.Context, key string) ([]byte, error)
	Write  func(ctx context.Context, key string, data []byte, o Options) error
	Remove func(ctx context.Context, key string) error
}
