package managedfile_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/onstore"
	"kops.local/kops/internal/store/open/user"
)

var buckets = onstore.Buckets(user.Backends(func(string) string { return "" }, http.DefaultClient))

func text(s string) resource.Content { return resource.Text(resource.Lit(s)) }

// newArea returns a store with the keys, each with its own name as content, as an area.
func newArea(t *testing.T, keys ...string) (store.Store, managedfile.Area) {
	t.Helper()
	s := store.NewMemory("test")
	for _, k := range keys {
		if _, err := s.Put(t.Context(), k, []byte(k), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return s, onstore.Area("bucket", "c.example.com/", s, nil)
}

// list observes a kind and returns "key content" of each object.
func list(t *testing.T, k resource.Any, client any, names ...string) []string {
	t.Helper()
	all, err := k.Observe(t.Context(), client, resource.Scope{Names: names})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range all {
		line := o.Key
		if f, ok := o.Got.(*managedfile.File); ok {
			line += " " + f.Content.String()
		}
		out = append(out, line)
	}
	return out
}

func TestKindsAreDeclaredWell(t *testing.T) {
	for _, k := range buckets.Kinds() {
		if err := k.Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestOnlyWhatUpdatesWriteIsOwned(t *testing.T) {
	owned := []string{"addons/bootstrap-channel.yaml", "cluster-completed.spec", "igconfig/node/n/nodeupconfig.yaml", "kops-version.txt", "manifests/etcd/main-a.yaml"}
	foreign := []string{"backups/etcd/main/2026-08-01T10:15:00Z-000042/etcd.backup.gz", "backups/etcd/main/control/etcd-cluster-created",
		"backups/etcd/main/control/etcd-cluster-spec", "clusteraddons/default", "config", "instancegroup/nodes", "lease/holder",
		"pki/private/kubernetes-ca/keyset.yaml", "pki/ssh/public/admin/x", "secrets/admin"}
	_, area := newArea(t, append(slices.Clone(owned), foreign...)...)
	client := managedfile.Files{Areas: []managedfile.Area{area}}
	keys := func(names ...string) (out []string) {
		for _, line := range list(t, buckets["s3"].Kind.Erase(), client, names...) {
			out = append(out, strings.TrimPrefix(strings.Fields(line)[0], "bucket/c.example.com/"))
		}
		return out
	}
	if got := keys(); !slices.Equal(got, owned) {
		t.Errorf("owned %v\nwant %v", got, owned)
	}
	spec := "backups/etcd/main/control/etcd-cluster-spec"
	if got, want := keys("bucket/c.example.com/"+spec), append(slices.Clone(owned), spec); !equalSets(got, want) {
		t.Errorf("with a desired file %v\nwant %v", got, want)
	}
}

func equalSets(a, b []string) bool {
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

func TestAFileIsTheSameAfterItWasWritten(t *testing.T) {
	for _, url := range []string{"s3://bucket/c.example.com", "gs://bucket/c.example.com", "file:///srv/c.example.com"} {
		t.Run(url, func(t *testing.T) {
			at := buckets.Location(url)
			s := store.NewMemory("test")
			client := managedfile.Files{Areas: []managedfile.Area{onstore.Area(at.Store, at.Prefix, s, nil)}}
			n := at.Node("addons-x", "addons/x.yaml", text("first"), false)
			if err := n.Kind.Check(); err != nil {
				t.Fatal(err)
			}
			if _, err := n.Kind.Create(t.Context(), client, n.Want); err != nil {
				t.Fatal(err)
			}
			have := observe(t, n, client)
			if d := n.Kind.Schema().Diff(n.Want, have); len(d) != 0 {
				t.Errorf("after the create: %v", d)
			}
			changed := at.Node("addons-x", "addons/x.yaml", text("second"), false)
			d := n.Kind.Schema().Diff(changed.Want, have)
			if len(d) != 1 || d[0].Field != "Content" || d[0].Mode != resource.Update {
				t.Fatalf("changes %v", d)
			}
			if _, err := n.Kind.Set(t.Context(), client, have, changed.Want, d); err != nil {
				t.Fatal(err)
			}
			if d := n.Kind.Schema().Diff(changed.Want, observe(t, n, client)); len(d) != 0 {
				t.Errorf("after the change: %v", d)
			}
			for range 2 { // it is not an error if it does not exist
				if err := n.Kind.Delete(t.Context(), client, have); err != nil {
					t.Fatal(err)
				}
			}
			if got := list(t, n.Kind, client); len(got) != 0 {
				t.Errorf("left %v", got)
			}
		})
	}
}

func observe(t *testing.T, n resource.Node, client any) any {
	t.Helper()
	all, err := n.Kind.Observe(t.Context(), client, resource.Scope{})
	if err != nil || len(all) != 1 {
		t.Fatalf("observed %v, %v", all, err)
	}
	return all[0].Got
}

func TestAFileWhoseListedDigestIsNoMD5IsRead(t *testing.T) {
	_, area := newArea(t, "addons/a", "addons/b", "addons/c")
	plain := area.List
	reads := 0
	read := area.Read
	area.Read = func(ctx context.Context, key string) ([]byte, error) { reads++; return read(ctx, key) }
	area.List = func(ctx context.Context) ([]managedfile.Info, error) {
		all, err := plain(ctx)
		all[0].Digest, all[1].Digest = "", strings.Repeat("0", 32)
		return all, err
	}
	var g graph.Graph
	at := buckets.Location("s3://bucket/c.example.com")
	if err := g.Add(at.Node("b", "addons/b", text("addons/b"), false), at.Node("c", "addons/c", text("addons/c"), false)); err != nil {
		t.Fatal(err)
	}
	client := managedfile.Files{Areas: []managedfile.Area{area}, Wanted: managedfile.WantedDigests(&g)}
	for n, line := range list(t, buckets["s3"].Kind.Erase(), client) {
		key := "addons/" + string("abc"[n])
		if want := "bucket/c.example.com/" + key + " md5:" + store.Digest([]byte(key)); !strings.HasPrefix(line, want) {
			t.Errorf("%s, want %s", line, want)
		}
	}
	if reads != 2 {
		t.Errorf("%d reads, want 2", reads)
	}
}

// recordingStore is a store that records how it was last written to.
type recordingStore struct {
	store.Store
	lastOptions store.PutOptions
}

func (n *recordingStore) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
	n.lastOptions = o
	return n.Store.Put(ctx, key, data, o)
}

func TestFilesOfTwoBuckets(t *testing.T) {
	cluster, discovery := store.NewMemory("c"), &recordingStore{Store: store.NewMemory("d")}
	client := managedfile.Files{Areas: []managedfile.Area{
		onstore.Area("bucket", "c.example.com/", cluster, nil), onstore.Area("open", "", discovery, nil)}}
	jwks := buckets.Location("s3://open").Node("keys.json", "openid/v1/jwks", text("{}"), true)
	if _, err := jwks.Kind.Create(t.Context(), client, jwks.Want); err != nil {
		t.Fatal(err)
	}
	if _, _, err := discovery.Get(t.Context(), "openid/v1/jwks"); err != nil {
		t.Error(err)
	}
	if got := jwks.Want.(*managedfile.File); got.ACL != "public-read" || got.Encryption != "AES256" || got.Provider != "aws.files" {
		t.Errorf("declared as %+v", got)
	}
	if want := (store.PutOptions{PublicRead: true}); discovery.lastOptions != want {
		t.Errorf("written with %+v, want %+v", discovery.lastOptions, want)
	}
	hidden := buckets.Location("s3://open").Node("x", "x", text(""), false)
	if _, err := hidden.Kind.Create(t.Context(), client, hidden.Want); err != nil || discovery.lastOptions != (store.PutOptions{}) {
		t.Errorf("written with %+v, %v", discovery.lastOptions, err)
	}
	other := buckets.Location("s3://closed").Node("x", "x", text(""), false)
	if _, err := other.Kind.Create(t.Context(), client, other.Want); fault.Of(err) != fault.Permanent {
		t.Errorf("a file of a store that is not open: %v", err)
	}
}

// A user may publish the issuer's documents from the cluster's folder, and store the back-ups of
// one etcd cluster below another's.
func TestAFileOfTwoAreasIsOne(t *testing.T) {
	s, whole := newArea(t, "addons/a", "discovery/openid/v1/jwks", "backups/main/etcd-cluster-spec")
	part := func(folder string) managedfile.Area {
		return onstore.Area("bucket", "c.example.com/"+folder, store.Sub(s, strings.TrimSuffix(folder, "/")), nil)
	}
	client := managedfile.Files{Areas: []managedfile.Area{whole, part("discovery/"), part("backups/"), part("backups/main/"), whole}}
	names := []string{"addons/a", "backups/main/etcd-cluster-spec", "discovery/openid/v1/jwks"}
	for i, n := range names {
		names[i] = "bucket/c.example.com/" + n
	}
	var got []string
	for _, line := range list(t, buckets["s3"].Kind.Erase(), client, names...) {
		got = append(got, strings.Fields(line)[0])
	}
	if !equalSets(got, names) {
		t.Errorf("listed %q, want %q", got, names)
	}
	n := buckets.Location("s3://bucket/c.example.com/backups/main").Node("x", "x", text("x"), false)
	if _, err := n.Kind.Create(t.Context(), client, n.Want); err != nil {
		t.Fatal(err)
	}
	if data, _, err := s.Get(t.Context(), "backups/main/x"); err != nil || string(data) != "x" {
		t.Errorf("it holds %q, %v", data, err)
	}
}

// Another process may remove a file after the listing and before it is read.
func TestAFileThatGoesMeanwhileIsGone(t *testing.T) {
	_, area := newArea(t, "addons/a", "addons/b")
	all := area.List
	area.List = func(ctx context.Context) ([]managedfile.Info, error) {
		infos, err := all(ctx)
		infos[0].Digest = ""
		return infos, err
	}
	why := fault.New(fault.Gone, "gone")
	area.Read = func(context.Context, string) ([]byte, error) { return nil, why }
	k, client := buckets["s3"].Kind.Erase(), managedfile.Files{Areas: []managedfile.Area{area}}
	if got := list(t, k, client); len(got) != 1 || !strings.HasPrefix(got[0], "bucket/c.example.com/addons/b ") {
		t.Errorf("listed %q", got)
	}
	why = fault.New(fault.Denied, "no")
	if _, err := k.Observe(t.Context(), client, resource.Scope{}); fault.Of(err) != fault.Denied {
		t.Errorf("a file that may not be read: %v", err)
	}
}

func TestKeysetsAndSecretsAreMadeOnce(t *testing.T) {
	for _, c := range []struct {
		kind   resource.Any
		folder string
		key    string
		node   func(name string, c resource.Content) resource.Node
	}{
		{managedfile.Keyset.Erase(), "pki", "pki/private/ca/keyset.yaml", managedfile.KeysetNode},
		{managedfile.Secret.Erase(), "secrets", "secrets/ca", managedfile.SecretNode},
	} {
		t.Run(c.kind.KindName(), func(t *testing.T) {
			m, _ := newArea(t, "pki/ssh/public/admin/x", "pki/private/ca/other", "secrets/a/b", "config")
			s := &recordingStore{Store: m}
			client := onstore.Area("bucket", "c.example.com/"+c.folder+"/", store.Sub(s, c.folder), nil)
			n := c.node("ca", resource.SecretText("very secret"))
			if _, err := n.Kind.Create(t.Context(), client, n.Want); err != nil {
				t.Fatal(err)
			}
			if data, _, err := s.Get(t.Context(), c.key); err != nil || string(data) != "very secret" {
				t.Errorf("%s holds %q, %v", c.key, data, err)
			}
			if want := (store.PutOptions{IfAbsent: true, Private: true}); s.lastOptions != want {
				t.Errorf("written with %+v, want %+v", s.lastOptions, want)
			}
			if got := list(t, c.kind, client, "ca", "x", "a", "a/b", "other"); !slices.Equal(got, []string{"ca"}) {
				t.Errorf("listed %v", got)
			}
			if got := list(t, c.kind, client); len(got) != 0 {
				t.Errorf("owned %v", got)
			}
			other := c.node("ca", resource.SecretText("another"))
			if d := n.Kind.Schema().Diff(other.Want, &managedfile.Private{Name: "ca"}); len(d) != 0 {
				t.Errorf("an existing one would change: %v", d)
			}
			if _, err := n.Kind.Create(t.Context(), client, other.Want); fault.Of(err) != fault.Permanent || fault.Remedy(err) == "" {
				t.Errorf("a second create: %v", err)
			}
			if text := fmt.Sprintf("%v %+v %#v", n.Want, n.Want.(*managedfile.Private).Content, n); strings.Contains(text, "very secret") {
				t.Errorf("%s shows the content", text)
			}
		})
	}
}

func TestAListingIsAskedUntilSomethingWasWritten(t *testing.T) {
	s := store.NewMemory("test")
	asked := 0
	area := onstore.Area("bucket", "", s, func(context.Context) ([]store.Info, error) { asked++; return nil, nil })
	client := managedfile.Files{Areas: []managedfile.Area{area}}
	k := buckets["s3"].Kind.Erase()
	_ = list(t, k, client)
	_ = list(t, k, client)
	if asked != 2 {
		t.Errorf("the listing was asked %d times, want 2", asked)
	}
	n := buckets.Location("s3://bucket").Node("x", "addons/x", text("x"), false)
	if _, err := n.Kind.Create(t.Context(), client, n.Want); err != nil {
		t.Fatal(err)
	}
	if got := list(t, k, client); len(got) != 1 || asked != 2 {
		t.Errorf("after a write %v, listing asked %d times", got, asked)
	}
	client.Areas[0] = onstore.Area("bucket", "", s, func(context.Context) ([]store.Info, error) { return []store.Info{{Key: "addons/x", Digest: "0"}}, nil })
	if err := k.Delete(t.Context(), client, n.Want); err != nil {
		t.Fatal(err)
	}
	if got := list(t, k, client); len(got) != 0 {
		t.Errorf("after a removal %v", got)
	}
}

func TestLocations(t *testing.T) {
	for url, want := range map[string]managedfile.Location{
		"s3://b/f/c.example.com":  {Bucket: buckets["s3"], Store: "b", Prefix: "f/c.example.com/"},
		"s3://b/":                 {Bucket: buckets["s3"], Store: "b"},
		"file:///srv/kops/c":      {Store: "file:///srv/kops/c"},
		"/srv/kops/c":             {Store: "file:///srv/kops/c"},
		"memfs://x/c.example.com": {Store: "memfs://x/c.example.com"},
	} {
		if got := buckets.Location(url); got != want {
			t.Errorf("%s: %+v, want %+v", url, got, want)
		}
	}
}

// A file that was read has a known text, so that people see what changes; a file with a Kubernetes
// Secret is hidden in every comparison.
func TestTextsAreKnownAndSecretsHidden(t *testing.T) {
	_, area := newArea(t, "addons/a")
	area.Read = func(context.Context, string) ([]byte, error) { return []byte("old: text\n"), nil }
	var g graph.Graph
	at := buckets.Location("s3://bucket/c.example.com")
	if err := g.Add(at.Node("a", "addons/a", text("new: text\n"), false)); err != nil {
		t.Fatal(err)
	}
	all, err := buckets["s3"].Kind.Erase().Observe(t.Context(), managedfile.Files{Areas: []managedfile.Area{area}, Wanted: managedfile.WantedDigests(&g)}, resource.Scope{})
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	if got, _ := all[0].Got.(*managedfile.File).Content.Value().Known(); got != "old: text\n" {
		t.Errorf("the text is %q", got)
	}
	for text, shown := range map[string]bool{
		"kind: ConfigMap\n": true, "a: 1\n---\nkind: Secret\ndata: {}\n": false, `{"items":[{"kind": "Secret"}]}`: false,
		"items:\n- kind: Secret\n": false, "rules:\n- kind: SecretStore\n": true, "kind: \"Secret\"\n": false,
	} {
		if got := managedfile.Text(text); got.Shown() != shown || got.Secret() {
			t.Errorf("%q is shown: %v", text, got.Shown())
		}
	}
}
