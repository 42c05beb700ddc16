// Package s3 is the store in a bucket of Amazon S3, or of another server that
// supports its protocol with If-Match and If-None-Match.
//
// It must not know what the objects mean, nor read the environment: credentials,
// region and endpoint are passed in.
package s3

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/web"
)

// bodyTries is how often an object is requested if the connection breaks in the body.
const bodyTries = 4

// bucket is the Store below one prefix of one bucket.
type bucket struct {
	cfg    Config
	url    string // as the user wrote it, without a final slash
	name   string
	prefix string // empty, or with a final slash

	mu     sync.Mutex
	client *sdk.Client
	region string
}

// key returns the name of the object in the bucket.
func (b *bucket) key(key string) string { return b.prefix + key }

// About implements store.Store.
func (b *bucket) About() store.About {
	return store.About{URL: b.url, DeleteAll: b.deleteAll, Purge: b.purge, Public: b.isPublic, Web: b.webURL}
}

// webURL returns the URL of the bucket on its server, with the bucket in the path if the server is
// not Amazon's (Amazon S3 User Guide, "Virtual hosting of general purpose buckets").
func (b *bucket) webURL() string {
	b.mu.Lock()
	region := b.region
	b.mu.Unlock()
	at := "https://" + b.name + ".s3." + region + ".amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		at += ".cn"
	}
	if b.cfg.Endpoint != "" {
		at = strings.TrimSuffix(b.cfg.Endpoint, "/") + "/" + b.name
	}
	return strings.TrimSuffix(at+"/"+b.prefix, "/")
}

// Get implements store.Store.
func (b *bucket) Get(ctx context.Context, key string) (data []byte, v store.Version, err error) {
	if err := store.CheckKey(key); err != nil {
		return nil, "", err
	}
	for range bodyTries {
		var out *sdk.GetObjectOutput
		err = b.do(ctx, func(c *sdk.Client) (err error) {
			out, err = c.GetObject(ctx, &sdk.GetObjectInput{Bucket: &b.name, Key: aws.String(b.key(key))})
			return err
		})
		if err != nil {
			return nil, "", b.wrapError(ctx, "read", "s3:GetObject", key, err)
		}
		data, err = io.ReadAll(out.Body)
		out.Body.Close() // it was only read
		if err == nil {
			v, err := b.requireVersion("read", key, out.ETag)
			return data, v, err
		}
		if ctx.Err() != nil {
			return nil, "", b.wrapError(ctx, "read", "s3:GetObject", key, err)
		}
	}
	return nil, "", web.ConnectionError("read "+store.URL(b, key), err)
}

// List implements store.Store: one request per thousand objects.
func (b *bucket) List(ctx context.Context, prefix string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		in := &sdk.ListObjectsV2Input{Bucket: &b.name, Prefix: aws.String(b.key(prefix))}
		for {
			var out *sdk.ListObjectsV2Output
			err := b.do(ctx, func(c *sdk.Client) (err error) {
				out, err = c.ListObjectsV2(ctx, in)
				return err
			})
			if err != nil {
				yield(store.Info{}, b.wrapError(ctx, "list", "s3:ListBucket", prefix, err))
				return
			}
			for _, o := range out.Contents {
				if key := aws.ToString(o.Key); !strings.HasSuffix(key, "/") && !yield(b.info(o), nil) {
					return // a key with a final slash is a marker of a folder, not one of our objects
				}
			}
			if !aws.ToBool(out.IsTruncated) {
				return
			}
			if aws.ToString(out.NextContinuationToken) == "" {
				yield(store.Info{}, b.listingError(b.key(prefix)))
				return
			}
			in.ContinuationToken = out.NextContinuationToken
		}
	}
}

// info converts an entry of a listing. The ETag of an object that was uploaded in one part, and not
// encrypted with a KMS key, is the MD5 of its content (Amazon S3 API reference, type Object).
func (b *bucket) info(o types.Object) store.Info {
	v := version(o.ETag)
	info := store.Info{
		Key:     strings.TrimPrefix(aws.ToString(o.Key), b.prefix),
		Size:    aws.ToInt64(o.Size),
		Version: v,
	}
	if len(v) == 32 && strings.Trim(string(v), "0123456789abcdef") == "" {
		info.Digest = string(v)
	}
	return info
}

// Put implements store.Store.
func (b *bucket) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
	if err := store.CheckKey(key); err != nil {
		return "", err
	}
	if public := b.cfg.ACL; o.Private && isPublicACL(public) {
		return "", fault.Wrap(fault.Denied, fmt.Errorf("write %s: it holds secrets, and with the ACL %q others could read it", store.URL(b, key), public),
			"unset KOPS_STATE_S3_ACL, or set it to private or bucket-owner-full-control")
	}
	in := &sdk.PutObjectInput{Bucket: &b.name, Key: aws.String(b.key(key)), ACL: b.acl(o)}
	if o.IfAbsent {
		in.IfNoneMatch = aws.String("*")
	}
	if o.IfVersion != "" {
		in.IfMatch = etag(o.IfVersion)
	}
	var out *sdk.PutObjectOutput
	tries := 0
	conditional := o.IfAbsent || o.IfVersion != ""
	write := func(c *sdk.Client) (err error) {
		in.Body = bytes.NewReader(data)
		out, err = c.PutObject(ctx, in, countTries(&tries))
		return err
	}
	err := b.do(ctx, write)
	// A write that collides with a concurrent one is repeated: then the server knows
	// whether its condition holds.
	for n := 1; n < web.Tries && isCollision(err); n++ {
		if serr := clock.Sleep(ctx, web.Backoff(n)); serr != nil {
			break
		}
		err = b.do(ctx, write)
	}
	if err == nil {
		v, err := b.requireVersion("write", key, out.ETag)
		if err == nil && o.PublicRead {
			err = b.checkPublic(ctx, key)
		}
		return v, err
	}
	if !conditional || !isConditionFailure(err) {
		return "", b.wrapError(ctx, "write", "s3:PutObject", key, err)
	}
	return store.ResolveConflict(ctx, b, key, data, o, tries)
}

// Delete implements store.Store.
func (b *bucket) Delete(ctx context.Context, key string, o store.DeleteOptions) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	in := &sdk.DeleteObjectInput{Bucket: &b.name, Key: aws.String(b.key(key))}
	if o.IfVersion != "" {
		in.IfMatch = etag(o.IfVersion)
	}
	err := b.do(ctx, func(c *sdk.Client) error {
		_, err := c.DeleteObject(ctx, in)
		return err
	})
	switch {
	case err == nil || code(err) == "NoSuchKey":
		return nil
	case o.IfVersion != "" && isConditionFailure(err):
		// Servers differ in their answer if the object is absent.
		if _, _, err := b.Get(ctx, key); fault.Is(err, fault.Gone) {
			return nil
		}
		return store.ChangedError(store.URL(b, key))
	}
	return b.wrapError(ctx, "delete", "s3:DeleteObject", key, err)
}

// acl returns the canned ACL of a write: the user's for the whole store, or the one that the
// options imply.
func (b *bucket) acl(o store.PutOptions) types.ObjectCannedACL {
	switch {
	case b.cfg.ACL != "":
		return types.ObjectCannedACL(b.cfg.ACL)
	case o.PublicRead:
		return types.ObjectCannedACLPublicRead
	}
	return ""
}

// isPublic reports whether the bucket's policy makes it publicly readable. A server
// that does not support the request has no such policy.
func (b *bucket) isPublic(ctx context.Context) (bool, error) {
	var out *sdk.GetBucketPolicyStatusOutput
	err := b.do(ctx, func(c *sdk.Client) (err error) {
		out, err = c.GetBucketPolicyStatus(ctx, &sdk.GetBucketPolicyStatusInput{Bucket: &b.name})
		return err
	})
	switch {
	case err == nil:
		return out.PolicyStatus != nil && aws.ToBool(out.PolicyStatus.IsPublic), nil
	case slices.Contains([]string{"NoSuchBucketPolicy", "NotImplemented", "MethodNotAllowed"}, code(err)):
		return false, nil
	}
	return false, b.wrapError(ctx, "check whether public access is allowed to", "s3:GetBucketPolicyStatus", "", err)
}

// checkPublic returns an error if an object that must be public is not: some servers
// accept an ACL but ignore it. If anonymous requests get no useful answer, nothing is
// known and there is no error.
func (b *bucket) checkPublic(ctx context.Context, key string) error {
	err := b.do(ctx, func(c *sdk.Client) error {
		anybody := sdk.New(c.Options(), func(o *sdk.Options) { o.Credentials = aws.AnonymousCredentials{} })
		_, err := anybody.HeadObject(ctx, &sdk.HeadObjectInput{Bucket: &b.name, Key: aws.String(b.key(key))})
		return err
	})
	if s := status(err); s != http.StatusForbidden && s != http.StatusUnauthorized {
		return nil
	}
	what := "let the bucket " + b.name + " accept ACLs, including public ones"
	if b.cfg.ACL != "" {
		what = "unset KOPS_STATE_S3_ACL, which is " + b.cfg.ACL
	}
	return fault.Wrap(fault.Permanent, fmt.Errorf("%s was written, but it must be public, and the server does not allow that", store.URL(b, key)),
		what+"; or allow everyone s3:GetObject on "+store.URL(b, key)+" in the bucket policy")
}

// isPublicACL reports whether a canned ACL makes objects readable beyond their owners
// (Amazon S3 User Guide, "Canned ACL").
func isPublicACL(acl string) bool {
	return slices.Contains([]types.ObjectCannedACL{types.ObjectCannedACLPublicRead, types.ObjectCannedACLPublicReadWrite,
		types.ObjectCannedACLAuthenticatedRead, types.ObjectCannedACLAwsExecRead}, types.ObjectCannedACL(acl))
}

// requireVersion returns the version in an answer. Without one, nothing would guard the next write.
func (b *bucket) requireVersion(doing, key string, etag *string) (store.Version, error) {
	v := version(etag)
	if v == "" {
		return "", fault.Wrap(fault.Permanent, fmt.Errorf("%s %s: the answer has no ETag", doing, store.URL(b, key)),
			"the server does not support conditional writes, so two commands could overwrite each other's changes; use another one")
	}
	return v, nil
}

// version returns an ETag without its quotes.
func version(etag *string) store.Version {
	return store.Version(strings.Trim(aws.ToString(etag), `"`))
}

// etag is the inverse of version.
func etag(v store.Version) *string { return aws.String(`"` + string(v) + `"`) }
