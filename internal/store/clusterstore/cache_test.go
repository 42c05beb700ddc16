package clusterstore_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/clusterstore"
)

// TestRequests checks the number of requests that reading a cluster of 67 groups
// takes, and prints how long it takes at 50 ms per request.
func TestRequests(t *testing.T) {
	server := awstest.Moto(t)
	server.Bucket(t, "clusters")
	p := awstest.Proxy(t, server.URL)
	cfg := server.S3()
	cfg.Endpoint = p.URL
	w := inMemory()
	w.open = func() store.Store { return openS3(t, cfg, "s3://clusters/state") }
	made := create(t, w.client(t), demo(name, 67))
	packed := ".kops/" + name + "/pack"
	noPack := func() {
		if err := w.open().Delete(t.Context(), packed, store.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	edit := func() {
		s := w.client(t)
		was := load(t, s)
		now := was.Clone()
		now.Groups[7].Spec.MachineType += "x"
		var err error
		if made, err = s.Save(t.Context(), was, now); err != nil {
			t.Fatal(err)
		}
	}
	behind := func() { // kOps changes a group, and does not know about packs
		group := name + "/instancegroup/nodes-09"
		w.put(t, group, strings.Replace(w.get(t, group), "t3.medium", "m5.large", 1))
		made = made.Clone()
		made.Group("nodes-09").Spec.MachineType = "m5.large"
	}
	tests := []struct {
		name    string
		prepare func()
		cache   bool
		most    int
	}{
		{"without pack or cache", noPack, false, 70},
		{"with a pack", edit, false, 2},
		{"with a pack that lacks a change", behind, false, 3},
		{"an empty cache", func() {}, true, 3},
		{"a warm cache", func() {}, true, 1},
		{"a warm cache without a pack", noPack, true, 1},
		{"a cache that lacks a change", edit, true, 2},
	}
	cache := t.TempDir()
	for _, tt := range tests {
		w.cache = ""
		tt.prepare()
		if tt.cache {
			w.cache = cache
		}
		s := w.client(t)
		p.Reset()
		p.SetLatency(50 * time.Millisecond)
		begin := time.Now()
		got := load(t, s)
		t.Logf("%-32s %2d requests, %v", tt.name, p.Requests(), time.Since(begin).Round(time.Millisecond))
		p.SetLatency(0)
		checkSame(t, made, got)
		if n := p.Requests(); n > tt.most || p.Writes() > 0 {
			t.Errorf("%s: %d requests, at most %d are allowed:\n%s", tt.name, n, tt.most, p.Report())
		}
		if n := p.Counts()["s3.ListObjectsV2"]; n != 1 {
			t.Errorf("%s: %d listings", tt.name, n)
		}
	}
	w.cache = ""
	for _, most := range []int{4, 3} {
		p.Reset()
		_, l := acquire(t, w.client(t), "jane")
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := p.Requests(); n > most {
			t.Errorf("taking and giving back the lease: %d requests, at most %d are allowed\n%s", n, most, p.Report())
		}
	}
}

func TestDamagedCacheIsIgnored(t *testing.T) {
	w := inMemory()
	w.cache = filepath.Join(t.TempDir(), "kops", "state")
	made := create(t, w.client(t), demo(name, 3))
	files := 0
	err := filepath.WalkDir(w.cache, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		if info, err := d.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, damaged := range [][]byte{nil, []byte("nonsense"), data[:len(data)/2], packOf(t, "wrong", data, false)} {
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				return err
			}
			checkSame(t, made, load(t, w.client(t)))
		}
		return nil
	})
	if err != nil || files != 1 {
		t.Errorf("%d files in the cache, %v", files, err)
	}
	if info, err := os.Stat(w.cache); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the cache folder: %v, %v", info.Mode(), err)
	}
	w.cache = "/proc/no/such/folder"
	checkSame(t, made, load(t, w.client(t)))
}

// packOf returns a pack with every text replaced, and with versions that no document has unless own is set.
func packOf(t *testing.T, text string, data []byte, own bool) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	docs := unpack(t, data)
	for key, d := range docs {
		version := "0"
		if own {
			version = d["version"]
		}
		docs[key] = map[string]string{"version": version, "text": text}
	}
	if err := json.NewEncoder(z).Encode(map[string]any{"format": 1, "documents": docs}); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpack(t *testing.T, data []byte) map[string]map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Documents map[string]map[string]string `json:"documents"`
	}
	if err := json.NewDecoder(z).Decode(&p); err != nil {
		t.Fatal(err)
	}
	return p.Documents
}

func TestDamagedPackIsIgnored(t *testing.T) {
	w := inMemory()
	made := create(t, w.client(t), demo(name, 3))
	good := w.get(t, ".kops/"+name+"/pack")
	for _, damaged := range []string{"", "nonsense", good[:len(good)/2], string(packOf(t, "wrong", []byte(good), false)), string(packOf(t, "wrong", []byte(good), true))} {
		w.put(t, ".kops/"+name+"/pack", damaged)
		checkSame(t, made, load(t, w.client(t)))
	}
	// The next change corrects it.
	s := w.client(t)
	was := load(t, s)
	if _, err := s.Save(t.Context(), was, was); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(unpack(t, []byte(good)), unpack(t, []byte(w.get(t, ".kops/"+name+"/pack")))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPackHoldsNoSecrets(t *testing.T) {
	w := inMemory()
	w.cache = t.TempDir()
	s := w.client(t)
	c := create(t, s, demo(name, 1))
	fill(t, w)
	if _, err := s.Save(t.Context(), load(t, s), c.Clone()); err != nil {
		t.Fatal(err)
	}
	cached, err := os.ReadDir(w.cache)
	if err != nil || len(cached) != 1 {
		t.Fatalf("%v, %v", cached, err)
	}
	local, err := os.ReadFile(filepath.Join(w.cache, cached[0].Name(), name))
	if err != nil {
		t.Fatal(err)
	}
	for where, data := range map[string][]byte{"in the store": []byte(w.get(t, ".kops/"+name+"/pack")), "on the disk": local} {
		var keys []string
		for key := range unpack(t, data) {
			keys = append(keys, key)
		}
		if len(keys) != 3 {
			t.Errorf("the pack %s holds %q", where, keys)
		}
	}
}

// Saving unchanged contents writes only a pack, and that only once.
func TestSaveOfTheSameWritesThePackOnce(t *testing.T) {
	w := inMemory()
	create(t, w.client(t), demo(name, 2))
	if err := w.open().Delete(t.Context(), ".kops/"+name+"/pack", store.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int32{1, 0} {
		counted := &countedPutsStore{Store: w.open()}
		s := w.client(t, func(c *clusterstore.Config) { c.State = counted })
		was := load(t, s)
		if _, err := s.Save(t.Context(), was, was); err != nil {
			t.Fatal(err)
		}
		if n := counted.n.Load(); n != want {
			t.Errorf("save %d made %d writes, want %d", i+1, n, want)
		}
	}
}

// One flipped bit anywhere in the cache or in the pack costs requests, but does not change what is read.
func TestWrongBitIsNoticed(t *testing.T) {
	w := inMemory()
	w.cache = filepath.Join(t.TempDir(), "kops")
	made := create(t, w.client(t), demo(name, 1))
	files, err := filepath.Glob(filepath.Join(w.cache, "*", name))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	cached, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := range cached {
		wrong := bytes.Clone(cached)
		wrong[i] ^= 1 << (i % 8)
		if err := os.WriteFile(files[0], wrong, 0o600); err != nil {
			t.Fatal(err)
		}
		checkSame(t, made, load(t, w.client(t)))
	}
	w.cache = ""
	pack := w.get(t, ".kops/"+name+"/pack")
	for i := range len(pack) {
		wrong := []byte(pack)
		wrong[i] ^= 1 << (i % 8)
		w.put(t, ".kops/"+name+"/pack", string(wrong))
		checkSame(t, made, load(t, w.client(t)))
	}
}

// A document that another program removed or recreated is not read from the cache.
func TestCacheForgetsWhatIsGone(t *testing.T) {
	w := inMemory()
	w.cache = t.TempDir()
	create(t, w.client(t), demo(name, 3))
	load(t, w.client(t))
	group := name + "/instancegroup/nodes-01"
	text := w.get(t, group)
	if err := w.open().Delete(t.Context(), group, store.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := load(t, w.client(t)); len(got.Groups) != 2 || got.Group("nodes-01") != nil {
			t.Errorf("after the removal there are %d groups", len(got.Groups))
		}
	}
	w.put(t, group, strings.Replace(text, "t3.medium", "t3.xlargs", 1)) // of the same size
	if got := load(t, w.client(t)); len(got.Groups) != 3 || got.Group("nodes-01").Spec.MachineType != "t3.xlargs" {
		t.Errorf("made again: %+v", got.Group("nodes-01"))
	}
}

func TestPackFollowsEveryChange(t *testing.T) {
	w := inMemory()
	create(t, w.client(t), demo(name, 2))
	for _, machine := range []string{"m5.large", "m5.xlarge"} {
		s := w.client(t)
		was := load(t, s)
		now := was.Clone()
		now.Groups[1].Spec.MachineType = machine
		if _, err := s.Save(t.Context(), was, now); err != nil {
			t.Fatal(err)
		}
		packed := unpack(t, []byte(w.get(t, ".kops/"+name+"/pack")))
		if text := packed["instancegroup/nodes-01"]["text"]; !strings.Contains(text, machine) {
			t.Errorf("the pack holds\n%s, not %s", text, machine)
		}
	}
}
