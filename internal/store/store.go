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

// Version identifies one state of one object. It is opaque: versions are only
// compared for equality. Two writes of the same bytes may have the same version.
type Version string

// Info is a listing's entry for one object.
type Info struct {
	Key  string
	Size int64 // bytes
	// Version is what Get would return for the object.
	Version Version
	// Digest is the hex MD5 of the content if the backend knows it without reading the object, and
	// empty otherwise. Equal digests prove equal content. Unequal ones only mean that the content
	// must be read: for an S3 object encrypted with a KMS key it is the digest of something else.
	Digest string
}

// PutOptions are the conditions and the visibility of a write.
type PutOptions struct {
	// IfAbsent makes the write fail with fault.Conflict if the key exists.
	IfAbsent bool
	// IfVersion makes the write fail with fault.Conflict if the key is absent or has
	// another version. Empty means no condition.
	IfVersion Version
	// Private marks content that only the owner may read: a file has mode 0600.
	Private bool
	// PublicRead makes the object publicly readable, if the backend supports that.
	PublicRead bool
}

// DeleteOptions are the conditions of a removal.
type DeleteOptions struct {
	// IfVersion makes the removal fail with fault.Conflict if the object exists with
	// another version. Empty means no condition.
	IfVersion Version
}

// Store is a set of objects. Its methods may be used concurrently.
//
// Writes are atomic, and visible to everyone once Put has returned. Errors have a
// class of package fault; a key that CheckKey rejects is Permanent.
type Store interface {
	// Get returns an object and its version, or an error of class fault.Gone.
	Get(ctx context.Context, key string) ([]byte, Version, error)
	// List yields every object whose key starts with prefix (any text, not only a
	// folder), in byte order of the keys. It stops after the first error.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// Put writes an object and returns its new version.
	Put(ctx context.Context, key string, data []byte, o PutOptions) (Version, error)
	// Delete removes an object. An absent key is not an error.
	Delete(ctx context.Context, key string, o DeleteOptions) error
	// About describes the store itself. It is constant, and makes no request.
	About() About
}

// About describes a store and what it can do beyond the other methods.
type About struct {
	// URL is the root as a user writes it, without a final slash: s3://bucket/folder.
	URL string
	// DeleteAll removes many keys in few requests, without conditions; absent keys are
	// not an error. Nil if the backend has nothing better than Delete.
	DeleteAll func(ctx context.Context, keys []string) error
	// Purge is like DeleteAll, but removes all versions of the keys that the store
	// keeps. Nil if a store keeps one version only.
	Purge func(ctx context.Context, keys []string) error
	// Web returns the URL of the store's root for web clients that may read the store, without a
	// final slash. It may change as the store finds out more. Nil if there is none.
	Web func() string
	// Timed means that the store enforces conditions of writes by waiting: a write that
	// takes effect late replaces what was written conditionally.
	Timed bool
	// Public reports whether the policy of the store itself makes every object
	// publicly readable. Nil if the backend has no public access.
	Public func(ctx context.Context) (bool, error)
}

// URL returns the key's address as a user would write it.
func URL(s Store, key string) string { return join(s.About().URL, key) }

// DeleteAll removes every key, in few requests if the store supports that. It stops at the first
// error.
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

// Purge removes every key as DeleteAll does, and also the former versions that a store keeps.
func Purge(ctx context.Context, s Store, keys []string) error {
	if purge := s.About().Purge; purge != nil {
		return purge(ctx, keys)
	}
	return DeleteAll(ctx, s, keys)
}

// Digest returns the digest, as in Info, of an object with this content.
func Digest(data []byte) string {
	sum := md5.Sum(data)
	return hex.EncodeToString(sum[:])
}

// CommonPrefix returns the common prefix of two keys: a listing with it finds all keys between them.
func CommonPrefix(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return strings.ToValidUTF8(a[:n], "") // a partial character is not valid
}

// MaxKey is the length of the longest key, in bytes: the limit of S3, less some room for the
// prefix of a store.
const MaxKey = 900

// tempPrefix is the prefix of a folder store's unfinished files. No part of a key may start with it.
const tempPrefix = ".kops-unfinished-"

// CheckKey returns an error unless a key can be used in every kind of store: UTF-8
// text of at most MaxKey bytes, without control characters, whose parts between
// slashes are neither empty nor "." nor "..".
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

// join joins a folder and a key, either of which may be empty.
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
