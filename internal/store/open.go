package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/spec/diag"
)

// Backend opens the stores of some URL schemes.
type Backend struct {
	// Schemes are the texts before "://" that select this backend.
	Schemes []string
	// Open returns the store at a URL, split into scheme and rest: "s3" and
	// "bucket/folder". The rest has no final slash. Open need not use the network.
	// nil: only single objects can be read.
	Open func(ctx context.Context, scheme, rest string) (Store, error)
	// Read returns the content of one object, which the caller closes; nil: the object is read
	// through its store.
	Read func(ctx context.Context, scheme, rest string) (io.ReadCloser, error)
	// ReadOnly means that its stores cannot hold a state: nothing is written there.
	ReadOnly bool
	// Bucket describes its objects to other tools; nil: they cannot declare them.
	Bucket *Bucket
}

// Bucket describes the objects of a bucket for tools that declare resources, such as
// Terraform. The first part of a URL then names the bucket.
type Bucket struct {
	// Kind is their resource kind, such as aws_s3_object; API names the API whose limits apply.
	Kind, API string
	// Provider is Terraform's alias for the provider with the bucket's account.
	Provider string
	// Encryption is the encryption requested for each object.
	Encryption string
	// Arguments are the names of an object's arguments that differ from those of S3,
	// such as Terraform's tags, by field of managedfile.File.
	Arguments map[string]string
	// Readers is the resource kind that makes an object publicly readable; empty: an
	// argument of the object does so.
	Readers string
}

// As sets target to the backend, if it points to one.
func (b Backend) As(target any) bool {
	t, ok := target.(*Backend)
	if ok {
		*t = b
	}
	return ok
}

// Backends is the explicit list of the backends that a program can open.
type Backends []Backend

// Open returns the store at a URL such as s3://bucket/folder, file:///srv/kops or
// /srv/kops; a text without "://" is a folder.
func (b Backends) Open(ctx context.Context, url string) (Store, error) {
	scheme, rest := split(url)
	var known []string
	for _, backend := range b {
		switch {
		case backend.Open == nil:
		case slices.Contains(backend.Schemes, scheme):
			s, err := backend.Open(ctx, scheme, trimSlash(rest))
			if err != nil {
				return nil, fmt.Errorf("open state store %s: %w", url, err)
			}
			return s, nil
		case !backend.ReadOnly:
			known = append(known, backend.Schemes...)
		}
	}
	return nil, unknownScheme(url, scheme, known)
}

// Reads reports whether objects with the URL's scheme can be read.
func (b Backends) Reads(url string) bool {
	scheme, _ := split(url)
	return slices.ContainsFunc(b, func(b Backend) bool { return slices.Contains(b.Schemes, scheme) })
}

// Read returns the content of the object at a URL such as s3://bucket/folder/key,
// which the caller closes.
func (b Backends) Read(ctx context.Context, url string) (io.ReadCloser, error) {
	scheme, rest := split(url)
	for _, backend := range b {
		if backend.Read != nil && slices.Contains(backend.Schemes, scheme) {
			return backend.Read(ctx, scheme, rest)
		}
	}
	folder, key := path.Split(url)
	if folder == "" {
		return nil, fault.New(fault.Permanent, "%q is not the address of an object", url)
	}
	s, err := b.Open(ctx, folder)
	if err != nil {
		return nil, err
	}
	data, _, err := s.Get(ctx, key)
	return io.NopCloser(bytes.NewReader(data)), err
}

func split(url string) (scheme, rest string) {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return "file", url
	}
	return scheme, rest
}

// IsFolder reports whether a URL names a folder, which can be reached without a network.
func IsFolder(url string) bool {
	return strings.HasPrefix(url, "file://") || !strings.Contains(url, "://")
}

// MissingError is the error of all requests to a store, such as a bucket, that does not exist. Nothing
// can be read from it or written to it.
type MissingError struct{ Err error }

func (m *MissingError) Error() string { return m.Err.Error() }

// Unwrap returns the underlying error.
func (m *MissingError) Unwrap() error { return m.Err }

// IsMissing reports whether an error means that a store does not exist.
func IsMissing(err error) bool { return errors.As(err, new(*MissingError)) }

// unknownScheme returns the error for an unknown scheme, with a suggestion.
func unknownScheme(url, scheme string, known []string) error {
	slices.Sort(known)
	remedy := "use one of " + strings.Join(known, "://, ") + "://"
	if near := diag.Nearest(scheme, known); near != "" {
		remedy = "did you mean " + near + "://? " + remedy
	}
	return fault.Wrap(fault.Permanent, fmt.Errorf("open state store %s: unknown / unhandled path type %q", url, scheme), remedy)
}

// trimSlash removes one final slash, unless it is all there is.
func trimSlash(s string) string {
	if s == "/" {
		return s
	}
	return strings.TrimSuffix(s, "/")
}
