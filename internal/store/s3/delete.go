package s3

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"kops.local/kops/internal/store"
)

// maxDelete is the maximum number of keys in one DeleteObjects request (Amazon S3 API reference).
const maxDelete = 1000

// deleteAll removes keys in requests of a thousand.
func (b *bucket) deleteAll(ctx context.Context, keys []string) error {
	ids, err := b.identifiers(keys)
	if err != nil {
		return err
	}
	return b.remove(ctx, "s3:DeleteObject", ids)
}

// purge removes every version of keys. Only their listing shows whether the bucket
// keeps versions: without versioning, each object has one version, named null.
func (b *bucket) purge(ctx context.Context, keys []string) error {
	ids, err := b.identifiers(keys)
	if err != nil || len(ids) == 0 {
		return err
	}
	versions, err := b.versions(ctx, keys)
	if c := code(err); c == "NotImplemented" || c == "MethodNotAllowed" {
		return b.remove(ctx, "s3:DeleteObject", ids) // the server has no versions
	}
	if err != nil {
		return err
	}
	return b.remove(ctx, "s3:DeleteObjectVersion", versions)
}

// identifiers returns keys in the form that requests use.
func (b *bucket) identifiers(keys []string) ([]types.ObjectIdentifier, error) {
	ids := make([]types.ObjectIdentifier, len(keys))
	for i, key := range keys {
		if err := store.CheckKey(key); err != nil {
			return nil, err
		}
		ids[i].Key = aws.String(b.key(key))
	}
	return ids, nil
}

// versions lists all versions of keys, and their delete markers: a thousand with each
// request, of all keys with the common prefix that are not after the last.
func (b *bucket) versions(ctx context.Context, keys []string) ([]types.ObjectIdentifier, error) {
	first, last := b.key(slices.Min(keys)), b.key(slices.Max(keys))
	wanted := map[string]bool{}
	for _, k := range keys {
		wanted[b.key(k)] = true
	}
	var ids []types.ObjectIdentifier
	take := func(key, version *string) {
		if wanted[aws.ToString(key)] {
			ids = append(ids, types.ObjectIdentifier{Key: key, VersionId: version})
		}
	}
	in := &sdk.ListObjectVersionsInput{Bucket: &b.name, Prefix: aws.String(store.CommonPrefix(first, last))}
	for {
		var out *sdk.ListObjectVersionsOutput
		err := b.do(ctx, func(c *sdk.Client) (err error) {
			out, err = c.ListObjectVersions(ctx, in)
			return err
		})
		if err != nil {
			return nil, b.wrapError(ctx, "list the versions of", "s3:ListBucketVersions", strings.TrimPrefix(*in.Prefix, b.prefix), err)
		}
		for _, v := range out.Versions {
			take(v.Key, v.VersionId)
		}
		for _, m := range out.DeleteMarkers {
			take(m.Key, m.VersionId)
		}
		next := aws.ToString(out.NextKeyMarker)
		if !aws.ToBool(out.IsTruncated) || next > last {
			return ids, nil
		}
		if next == "" {
			return nil, b.listingError(aws.ToString(in.Prefix))
		}
		in.KeyMarker, in.VersionIdMarker = out.NextKeyMarker, out.NextVersionIdMarker
	}
}

// remove removes objects, or versions of them, in requests of a thousand.
func (b *bucket) remove(ctx context.Context, permission string, ids []types.ObjectIdentifier) error {
	for some := range slices.Chunk(ids, maxDelete) {
		key := strings.TrimPrefix(*some[0].Key, b.prefix)
		var out *sdk.DeleteObjectsOutput
		err := b.do(ctx, func(c *sdk.Client) (err error) {
			out, err = c.DeleteObjects(ctx, &sdk.DeleteObjectsInput{
				Bucket: &b.name,
				Delete: &types.Delete{Objects: some, Quiet: aws.Bool(true)},
			}, withContentMD5)
			return err
		})
		if err != nil {
			return b.wrapError(ctx, "delete", permission, key, err)
		}
		for _, e := range out.Errors {
			if c := aws.ToString(e.Code); c != "NoSuchKey" && c != "NoSuchVersion" {
				return b.classify("delete", permission, strings.TrimPrefix(aws.ToString(e.Key), b.prefix), c, 0,
					fmt.Errorf("%s: %s", c, aws.ToString(e.Message)))
			}
		}
	}
	return nil
}
