package s3_test

import (
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/s3"
	"kops.local/kops/internal/store/storetest"
)

// Moto checks a condition and writes in two steps.
func TestMoto(t *testing.T) {
	conformance(t, awstest.Moto(t), storetest.Traits{Nested: true, Digests: true})
}

// The gateway stores objects as files, and replaces one through a temporary file in the same
// folder.
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

// A proxy in front of a real server drops conditions: conditional writes are refused, unless
// the user disables the test. The result is remembered for the bucket.
func TestAServerThatIgnoresConditions(t *testing.T) {
	server := awstest.Moto(t)
	server.Bucket(t, "proofs")
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	var deaf atomic.Bool
	var requests atomic.Int32
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		requests.Add(1)
		r.SetURL(target)
		if deaf.Load() {
			r.Out.Header.Del("If-Match")
			r.Out.Header.Del("If-None-Match")
		}
	}})
	defer proxy.Close()
	cfg := server.S3()
	cfg.Endpoint, cfg.Unproven = proxy.URL, false
	backends := store.Backends{s3.Backend(cfg)}
	put := func(b store.Backends, folder, key string) error {
		s, err := b.Open(t.Context(), "s3://proofs/"+folder)
		if err == nil {
			_, err = s.Put(t.Context(), key, []byte("x"), store.PutOptions{IfAbsent: true})
		}
		return err
	}
	deaf.Store(true)
	if err := put(backends, "a", "lease"); !fault.Is(err, fault.Permanent) || !strings.Contains(fault.Remedy(err), "KOPS_STATE_S3_WITHOUT_LOCKS=true") {
		t.Errorf("a deaf server: %v", err)
	}
	cfg.Unproven = true
	if err := put(store.Backends{s3.Backend(cfg)}, "a", "lease"); err != nil {
		t.Errorf("without locks: %v", err)
	}
	deaf.Store(false)
	for i, want := range []int32{3, 1, 1} { // two requests of the proof, because its object exists
		requests.Store(0)
		if err := put(backends, "a", fmt.Sprintf("n%d", i)); err != nil || requests.Load() != want {
			t.Errorf("write %d: %d requests, %v", i, requests.Load(), err)
		}
	}
}

// After a purge, a bucket that keeps versions has none of the purged keys, and all of the others.
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
	if err := s.Delete(t.Context(), "1/etcd", store.DeleteOptions{}); err != nil { // leaves a delete marker
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
