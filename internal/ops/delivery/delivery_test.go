package delivery_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/delivery"
	"kops.local/kops/internal/test/programstest"
)

const version = "1.37.0-test+1"

func TestAnArchiveIsReadAsItWasPacked(t *testing.T) {
	at := programstest.Archive(t, t.TempDir(), version, "one")
	a, err := delivery.Places{Version: version, Files: []string{filepath.Join(t.TempDir(), "none"), at}}.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range download.Arches() {
		f := a.Index.Nodeup[arch]
		data, err := a.Read(f)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		program, err := io.ReadAll(z)
		if sum := sha256.Sum256(program); err != nil || hex.EncodeToString(sum[:]) != f.Program || !strings.Contains(string(program), "nodeup one") || f.Size != int64(len(data)) {
			t.Errorf("%s: %v, %q", arch, err, program)
		}
		image := a.Index.Images[programs.EtcdManager]
		if data, err = a.Read(image.Archives[arch]); err != nil {
			t.Fatal(err)
		}
		i, err := tarball.Image(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := i.ConfigFile(); err != nil || c.Architecture != string(arch) || c.Config.Entrypoint[0] != "/ko-app/etcd-manager" {
			t.Errorf("%s: %v, %+v", arch, err, c)
		}
		if !strings.HasPrefix(image.Name, "kops.internal/etcd-manager:1.37.0-test-1-") {
			t.Errorf("the image is called %s", image.Name)
		}
	}
}

// The same programs make the same archive with the same image names; other programs give images
// other names.
func TestThePackIsReproducible(t *testing.T) {
	read := func(text string) (string, string) {
		at := programstest.Archive(t, t.TempDir(), version, text)
		data, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		a, err := delivery.Places{Version: version, Files: []string{at}}.Find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return string(data), a.Index.Images[programs.Channels].Name
	}
	one, name := read("one")
	again, same := read("one")
	if one != again || name != same {
		t.Error("the same programs make two archives")
	}
	if _, other := read("two"); other == name {
		t.Errorf("two images have the name %s", name)
	}
}

func TestArchivesThatCannotBeUsedAreRefused(t *testing.T) {
	folder := t.TempDir()
	at := programstest.Archive(t, folder, version, "one")
	good, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	file := func(data []byte) []string {
		f := filepath.Join(t.TempDir(), "archive.tar")
		if err := os.WriteFile(f, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{f}
	}
	for says, p := range map[string]delivery.Places{
		"there is no " + folder + "/none":              {Version: version, Files: []string{folder + "/none"}},
		"but this is kops 1.38.0":                      {Version: "1.38.0", Files: []string{at}},
		"does not contain the programs that this kops": {Version: version, Files: []string{at}, Digest: strings.Repeat("0", 64)},
		"is not an archive of kops' own progra":        {Version: version, Files: file([]byte("no tar, " + strings.Repeat("long", 500)))},
		"it is empty":                                  {Version: version, Files: file(nil)},
		"unexpected EOF":                               {Version: version, Files: file(good[:5000])},
	} {
		if _, err := p.Find(t.Context()); err == nil || !strings.Contains(err.Error(), says) || fault.Remedy(err) == "" {
			t.Errorf("%v (%s), not %q", err, fault.Remedy(err), says)
		}
	}
	a, err := delivery.Places{Version: version, Files: file(bytes.ReplaceAll(good, []byte("\x1f\x8b"), []byte("\x1f\x8c")))}.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Read(a.Index.Nodeup[download.AMD64]); err == nil || !strings.Contains(err.Error(), "has changed since it was packed") {
		t.Errorf("%v", err)
	}
}

func TestAReleaseIsFetchedOnce(t *testing.T) {
	at := programstest.Archive(t, t.TempDir(), version, "one")
	asked := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch r.URL.Path {
		case "/kops/v" + version + "/" + delivery.FileName(version):
			http.ServeFile(w, r, at)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	p := delivery.Places{Version: version, Files: []string{filepath.Join(t.TempDir(), "cache", "a.tar")}, Releases: server.URL + "/kops/", HTTP: server.Client()}
	for range 2 {
		a, err := p.Find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Read(a.Index.Nodeup[download.ARM64]); err != nil {
			t.Error(err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	p.Files[0] += "2"
	p.Version = "1.38.0"
	if _, err := p.Find(t.Context()); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("%v", err)
	}
}

// A copy that machines read directly is identified by its index alone.
func TestACopyContainsItsIndex(t *testing.T) {
	a, err := delivery.Places{Version: version, Files: []string{programstest.Archive(t, t.TempDir(), version, "one")}}.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	index, err := delivery.Encode(a.Index)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/copy/index.json" {
			_, _ = w.Write(index)
			return
		}
		http.NotFound(w, r)
	}))
	defer server.Close()
	b, err := delivery.Places{Version: version, Base: server.URL + "/copy", HTTP: server.Client()}.Find(t.Context())
	if err != nil || b.Index.Nodeup[download.AMD64] != a.Index.Nodeup[download.AMD64] {
		t.Errorf("%v", err)
	}
	if _, err := (delivery.Places{Version: version, Base: server.URL, HTTP: server.Client()}).Find(t.Context()); err == nil || !strings.Contains(err.Error(), "KOPS_BASE_URL") {
		t.Errorf("%v", err)
	}
}
