package clusterstore_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/azureblob"
	"kops.local/kops/internal/store/azureblob/azuretest"
	"kops.local/kops/internal/store/clusterstore"
	"kops.local/kops/internal/store/clusterstore/leasetest"
	"kops.local/kops/internal/store/gs"
	"kops.local/kops/internal/store/gs/gstest"
	"kops.local/kops/internal/store/s3"
	"kops.local/kops/internal/store/swift"
	"kops.local/kops/internal/store/swift/swifttest"
)

// behaviours hold on every kind of store.
var behaviours = []struct {
	name string
	test func(t *testing.T, w *world)
}{
	{"what was saved is loaded", testSave},
	{"a cluster is created once", testCreatedOnce},
	{"an edit that lost a race loses nothing", testLostEdit},
	{"only what differs is written", testOnlyDifferences},
	{"a state of kOps is read", testKopsState},
	{"clusters are found", testClustersFound},
	{"keysets", keysets},
	{"secrets", secrets},
	{"ssh keys", sshKeys},
	{"a lease is for one", leaseForOne},
	{"a lease is raced for", leaseRace},
	{"a crashed holder's lease expires", leaseExpires},
	{"a broken lease is lost", leaseBroken},
	{"revisions", revisions},
	{"a deleted cluster leaves nothing", deletion},
	{"an unknown file stops a deletion", deletionGuard},
}

// world is an empty store with its cache and clock.
type world struct {
	open  func() store.Store // each call returns another client of the same objects
	cache string
	*leasetest.Clock
}

func newWorld(open func() store.Store) *world {
	return &world{open: open, Clock: leasetest.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
}

// client returns another program's view of the store.
func (w *world) client(t *testing.T, change ...func(*clusterstore.Config)) *clusterstore.Store {
	t.Helper()
	cfg := clusterstore.Config{State: w.open(), Cache: w.cache, Version: "1.0.0", Now: w.Now, Sleep: w.Sleep}
	for _, c := range change {
		c(&cfg)
	}
	s, err := clusterstore.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// raw returns the keys of the whole store.
func (w *world) raw(t *testing.T) []string {
	t.Helper()
	var out []string
	for info, err := range w.open().List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, info.Key)
	}
	return out
}

func (w *world) put(t *testing.T, key, data string) {
	t.Helper()
	if _, err := w.open().Put(t.Context(), key, []byte(data), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) get(t *testing.T, key string) string {
	t.Helper()
	data, _, err := w.open().Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func run(t *testing.T, open func(t *testing.T) func() store.Store) {
	for _, b := range behaviours {
		t.Run(b.name, func(t *testing.T) {
			b.test(t, newWorld(open(t)))
		})
	}
}

func inMemory() *world {
	m := store.NewMemory("state")
	return newWorld(func() store.Store { return m })
}

func TestOnMemory(t *testing.T) {
	run(t, func(*testing.T) func() store.Store { return inMemory().open })
}

func TestOnAFolder(t *testing.T) {
	run(t, func(t *testing.T) func() store.Store {
		dir := t.TempDir()
		return func() store.Store { return store.NewFolder(dir) }
	})
}

func TestOnMoto(t *testing.T) {
	onS3(t, awstest.Moto(t), &http.Client{Transport: &oneWriter{Transport: http.DefaultTransport.(*http.Transport).Clone()}})
}

func TestOnVersity(t *testing.T) { onS3(t, awstest.Versity(t), nil) }

func onS3(t *testing.T, server *awstest.Server, client aws.HTTPClient) {
	server.Bucket(t, "clusters")
	config := server.S3()
	config.HTTPClient = client
	on(t, func() store.Backend { return s3.Backend(config) }, "s3://clusters")
}

// oneWriter sends one write at a time. Moto, unlike S3, does not check the condition of a write and
// store the object in one step: two simultaneous writes with the same condition can both succeed.
type oneWriter struct {
	writing sync.Mutex
	*http.Transport
}

func (w *oneWriter) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.writing.Lock()
		defer w.writing.Unlock()
	}
	return w.Transport.RoundTrip(r)
}

func TestOnGoogle(t *testing.T) {
	server := gstest.Start(t)
	server.Bucket(t, "clusters")
	on(t, func() store.Backend { return gs.Backend(gs.Config{Endpoint: server.URL}) }, "gs://clusters")
}

func TestOnAzurite(t *testing.T) {
	server := azuretest.Start(t)
	server.Container(t, "clusters", "")
	on(t, func() store.Backend { return azureblob.Backend(server.Config()) }, "azureblob://"+azuretest.Account+"/clusters")
}

// A conditional write takes a second there, so only the lease is tested: it depends on time.
func TestTheLeaseOnSwift(t *testing.T) {
	server := swifttest.Start(t)
	for n, b := range behaviours {
		if !strings.Contains(b.name, "lease") {
			continue
		}
		container := fmt.Sprintf("clusters-%d", n)
		server.Container(t, container, "")
		t.Run(b.name, func(t *testing.T) {
			b.test(t, newWorld(func() store.Store {
				return open(t, swift.Backend(swift.Config{Login: server.Login("owner"), Settle: time.Second}), "swift://"+container)
			}))
		})
	}
}

// on runs each test in its own folder of a bucket.
func on(t *testing.T, backend func() store.Backend, bucket string) {
	n := 0
	run(t, func(t *testing.T) func() store.Store {
		n++
		url := fmt.Sprintf("%s/%d", bucket, n)
		return func() store.Store { return open(t, backend(), url) }
	})
}

func openS3(t *testing.T, cfg s3.Config, url string) store.Store {
	t.Helper()
	return open(t, s3.Backend(cfg), url)
}

func open(t *testing.T, backend store.Backend, url string) store.Store {
	t.Helper()
	s, err := store.Backends{backend}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// demo returns a cluster with n groups.
func demo(name string, n int) *clusterstore.Contents {
	c := &clusterstore.Contents{Spec: &api.Cluster{}}
	c.Spec.Name = name
	c.Spec.Spec.KubernetesVersion = "1.35.0"
	c.Spec.Spec.CloudProvider.AWS = &api.AWSSpec{}
	for i := range n {
		g := &api.InstanceGroup{}
		g.Name = fmt.Sprintf("nodes-%02d", i)
		g.Labels = map[string]string{api.LabelCluster: name}
		g.Spec.Role = api.RoleNode
		g.Spec.MachineType = "t3.medium"
		c.Groups = append(c.Groups, g)
	}
	return c
}
