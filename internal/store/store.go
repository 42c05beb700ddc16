// Package store keeps versioned objects under slash-separated keys: in memory,
// in a folder, or in whatever a Backend of another package opens.
//
// It must not know what the objects mean: nothing of clusters, of kOps' layout,
// of a cloud, or of flags and environment. A cloud's backend is a package of its
// own below this one, so that a program links only the SDKs that it uses.
package store

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"iter"
	"strings"
	"unicode/utf8"

	"kops.local/kops/internal/engine/fault"
)

// Version names one state of one object. It is opaque: two versions are only
// compared for equality. Two writes of the same bytes may have the same version.
type Version string

// Info is what a listing tells about one object.
type Info struct {
	Key  string
	Size int64 // bytes
	// Version is what Get would return for the object.
	Version Version
	// Digest is the hex MD5 of the content where the backend knows it without
	// reading the object, and empty otherwise. Equal digests prove equal content.
	// Unequal ones only say that the content must be looked at: an S3 object
	// encrypted with a key of KMS shows a digest of something else.
	Digest string
}

// PutOptions are the conditions and the visibility of a write.
type PutOptions struct {
	// IfAbsent makes the write fail with fault.Conflict when the key exists.
	IfAbsent bool
	// IfVersion makes the write fail with fault.Conflict when the key is absent or
	// has another version. Empty means no condition.
	IfVersion Version
	// Private marks content that only the owner may read: a file has mode 0600.
	Private bool
	// PublicRead lets anybody read the object, where a backend has such a notion.
	PublicRead bool
}

// DeleteOptions are the conditions of a removal.
type DeleteOptions struct {
	// IfVersion makes the removal fail with fault.Conflict when the object exists
	// with another version. Empty means no condition.
	IfVersion Version
}

// Store is a set of objects. Its methods may be used concurrently.
//
// A write is seen whole or not at all, and by everybody once Put has returned.
// Errors have a class of package fault; a key that CheckKey refuses is Permanent.
type Store interface {
	// Get returns an object and its version, or an error of class fault.Gone.
	Get(ctx context.Context, key string) ([]byte, Version, error)
	// List yields every object whose key starts with prefix (any text, not only a
	// folder), in the order of the bytes of the keys. It ends after the first error.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// Put writes an object and returns its new version.
	Put(ctx context.Context, key string, data []byte, o PutOptions) (Version, error)
	// Delete removes an object. An absent key is not an error.
	Delete(ctx context.Context, key string, o DeleteOptions) error
	// About describes the store itself. It is constant, and free of charge.
	About() About
}

// About says what a store is and what it can do beyond the other methods.
type About struct {
	// URL is the root as a user names it, without a final slash: s3://bucket/folder.
	URL string
	// DeleteAll removes many keys in few requests, without conditions; absent keys
	// are not an error. Nil if the backend has nothing better than Delete.
	DeleteAll func(ctx context.Context, keys []string) error
	// Purge is DeleteAll, and removes all versions of the keys that the store keeps.
	// Nil where a store keeps one version only.
	Purge func(ctx context.Context, keys []string) error
	// Web is the URL at which web clients that may read the store find its root, without a
	// final slash. A store may learn better as it is used. Nil where there is none.
	Web func() string
	// Timed says that the store keeps conditions of writes by waiting: a write that takes
	// effect late replaces what was written on a condition.
	Timed bool
	// Public asks whether the store by its own policy lets everybody read every
	// object. Nil where objects have no readers of their own (PutOptions.PublicRead).
	Public func(ctx context.Context) (bool, error)
}

// URL returns the key's address as a user would write it.
func URL(s Store, key string) string { return join(s.About().URL, key) }

// DeleteAll removes every key, in few requests where the store can. It stops at the first error.
func DeleteAll(ctx context.Context, s Store, keys []string) error {
	if all := s.About().DeleteAll; all != nil {
		return all(ctx, keys)
	}
	for _, k := range keys {
		if err := s.Delete(ctx, k, DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// Purge removes every key as DeleteAll does, and what a store keeps of its former contents.
func Purge(ctx context.Context, s Store, keys []string) error {
	if purge := s.About().Purge; purge != nil {
		return purge(ctx, keys)
	}
	return DeleteAll(ctx, s, keys)
}

// Digest returns the digest, as in Info, that an object with this content has.
func Digest(data []byte) string {
	sum := md5.Sum(data)
	return hex.EncodeToString(sum[:])
}

// Common is how two keys both begin: a prefix under which a listing finds all between them.
func Common(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return strings.ToValidUTF8(a[:n], "") // half a character is not valid
}

// MaxKey is the longest key, in bytes: the limit of S3, less some room for the prefix of a store.
const MaxKey = 900

// tempPrefix starts the names of unfinished files of a folder store. No part of a key may start so.
const tempPrefix = ".kops-unfinished-"

// CheckKey says whether a key may be used in every kind of store: UTF-8 text of
// at most MaxKey bytes, without control characters, whose parts between slashes
// are neither empty nor "." nor "..".
func CheckKey(key string) error {
	bad := func(why string) error {
		return fault.New(fault.Permanent, "bad key %q in a store: %s", key, why)
	}
	switch {
	case key == "":
		return bad("it is empty")
	case len(key) > MaxKey:
		return bad("it is too long")
	case !utf8.ValidString(key):
		return bad("it is not UTF-8")
	case strings.ContainsFunc(key, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return bad("it holds a control character")
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "" || part == "." || part == ".." || strings.HasPrefix(part, tempPrefix) {
			return bad("the part " + `"` + part + `" is not allowed`)
		}
	}
	return nil
}

// join puts a key below a folder, either of which may be empty.
func join(folder, key string) string {
	switch {
	case folder == "":
		return key
	case key == "":
		return folder
	case strings.HasSuffix(folder, "/"):
		return folder + key
	}
	return folder + "/" + key
}
