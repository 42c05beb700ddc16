package s3_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/s3"
	"kops.local/kops/internal/store/storetest"
)

// Moto looks at a condition and writes in two steps.
func TestMoto(t *testing.T) {
	conformance(t, awstest.Moto(t), storetest.Traits{Nested: true, Digests: true})
}

// The gateway keeps objects as files, and replaces one by way of another name in the same folder.
func TestVersity(t *testing.T) {
	conformance(t, awstest.Versity(t), storetest.Traits{Atomic: true, Digests: true, Strangers: true})
}

func conformance(t *testing.T, server *awstest.Server, traits storetest.Traits) {
	const name = "state-of-tests"
	server.Bucket(t, name)
	n := 0
	storetest.Run(t, traits, func(t *testing.T) storetest.Clients {
		n++
		url := fmt.Sprintf("s3://%s/part %d", name, n)
		return func() store.Store { return open(t, server.S3(), url) }
	})
}

func open(t *testing.T, cfg s3.Config, url string) store.Store {
	t.Helper()
	s, err := store.Backends{s3.Backend(cfg), s3.Compatible(cfg)}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A bucket that keeps versions keeps none of what is purged, and all of the rest.
func TestPurgeLeavesNoVersion(t *testing.T) {
	server := awstest.Moto(t)
	server.Bucket(t, "versioned")
	client := sdk.NewFromConfig(server.AWS(), func(o *sdk.Options) { o.UsePathStyle = true })
	_, err := client.PutBucketVersioning(t.Context(), &sdk.PutBucketVersioningInput{Bucket: aws.String("versioned"),
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, server.S3(), "s3://versioned/etcd/main")
	for _, key := range []string{"1/meta", "1/etcd", "2/meta", "2/etcd", "2x", "3/meta", "3/etcd"} {
		for _, text := range []string{"one", "two"} {
			if _, err := s.Put(t.Context(), key, []byte(text), store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Delete(t.Context(), "1/etcd", store.DeleteOptions{}); err != nil { // leaves a mark
		t.Fatal(err)
	}
	if err := store.Purge(t.Context(), s, []string{"1/meta", "1/etcd", "2/meta", "2/etcd"}); err != nil {
		t.Fatal(err)
	}
	left, err := client.ListObjectVersions(t.Context(), &sdk.ListObjectVersionsInput{Bucket: aws.String("versioned")})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, v := range left.Versions {
		keys = append(keys, *v.Key)
	}
	slices.Sort(keys)
	want := []string{"etcd/main/2x", "etcd/main/2x", "etcd/main/3/etcd", "etcd/main/3/etcd", "etcd/main/3/meta", "etcd/main/3/meta"}
	if !slices.Equal(keys, want) || len(left.DeleteMarkers) > 0 {
		t.Errorf("left are the versions of %q, and %d marks", keys, len(left.DeleteMarkers))
	}
}
