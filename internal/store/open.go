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
	// Schemes are the texts before "://" that belong to this backend.
	Schemes []string
	// Open returns the store at a URL, split into scheme and rest: "s3" and
	// "bucket/folder". The rest has no final slash. Open need not touch the network.
	// nil: single objects can be read, and nothing else.
	Open func(ctx context.Context, scheme, rest string) (Store, error)
	// Read returns the content of one object, which the caller closes; nil: the object is read
	// through its store.
	Read func(ctx context.Context, scheme, rest string) (io.ReadCloser, error)
	// ReadOnly says that its stores cannot hold a state: nothing is written there.
	ReadOnly bool
	// Bucket says what its objects are to other tools; nil: they are nothing to them.
	Bucket *Bucket
}

// Bucket says what the objects of a bucket are to tools that declare resources, such
// as Terraform. The first part of a URL then names the bucket.
type Bucket struct {
	// Kind is their kind of resource, such as aws_s3_object; API is whose limits count.
	Kind, API string
	// Provider is the alias under which Terraform knows the account of the bucket.
	Provider string
	// Encryption is asked for each object.
	Encryption string
	// Arguments are the names of an object's arguments where they differ from S3's, as
	// Terraform's tags, by field of managedfile.File.
	Arguments map[string]string
	// Readers is the kind of resource that lets everybody read an object; empty: an
	// argument of the object does.
	Readers string
}

// As sets target to the backend, where it points to one.
func (b Backend) As(target any) bool {
	t, ok := target.(*Backend)
	if ok {
		*t = b
	}
	return ok
}

// Backends is the explicit list of what a program can open.
type Backends []Backend

// Open returns the store at a URL such as s3://bucket/folder, file:///srv/kops
// or /srv/kops; a text without "://" is a folder.
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

// Reads reports whether objects of the scheme of a URL can be read.
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

// IsFolder reports whether a URL names a folder, which takes no network to reach.
func IsFolder(url string) bool {
	return strings.HasPrefix(url, "file://") || !strings.Contains(url, "://")
}

// Missing is the error of all requests to a store that does not exist, such as a bucket. It holds
// nothing, and nothing can be written to it.
type Missing struct{ Err error }

func (m *Missing) Error() string { return m.Err.Error() }

// Unwrap returns what was asked, and answered.
func (m *Missing) Unwrap() error { return m.Err }

// IsMissing reports whether an error says that a store does not exist.
func IsMissing(err error) bool { return errors.As(err, new(*Missing)) }

// unknownScheme says what could have been meant.
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
