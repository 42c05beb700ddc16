package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/model/assets"
)

// asker returns a world that can only look up digests, and that does not sleep.
func asker(t *testing.T, web *http.Client) *World {
	t.Helper()
	return &World{HTTP: web, Cache: t.TempDir(), Log: slog.New(slog.DiscardHandler),
		Sleep: func(context.Context, time.Duration) error { return nil }}
}

func TestDigestsAreAskedOfThePublisherAndThenOfTheMirror(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/mirror/dl/runc.amd64.sha256":
			if asked.Add(1) < 3 { // a server that recovers
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.Write([]byte(sum + "\n"))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	c := asker(t, server.Client())
	repository := server.URL + "/mirror"
	mirrors := assets.MirrorsOf(&api.AssetsSpec{FileRepository: &repository})
	public := server.URL + "/dl/runc.amd64"
	if got, err := c.hash(t.Context(), public, mirrors); err != nil || got != sum || asked.Load() != 3 {
		t.Errorf("%q, %v, asked %d times", got, err, asked.Load())
	}
	server.Close()
	c.Offline = true
	if got, err := c.hash(t.Context(), public, mirrors); err != nil || got != sum {
		t.Errorf("offline, from the cache: %q, %v", got, err)
	}
	if _, err := c.hash(t.Context(), server.URL+"/dl/other", mirrors); err == nil || err.Error() != "this run is offline" {
		t.Errorf("offline, a file that was never asked for: %v", err)
	}
}

// TestWhatComesWithoutTLSStatesNothing uses a mirror without TLS, and a server that redirects to
// one.
func TestWhatComesWithoutTLSStatesNothing(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(sum)) }))
	defer plain.Close()
	c := asker(t, plain.Client())
	if got, err := c.hash(t.Context(), plain.URL+"/file", assets.MirrorsOf(&api.AssetsSpec{FileRepository: &plain.URL})); err == nil {
		t.Errorf("the digest %q is believed", got)
	}
}

func TestATamperedCacheIsIgnored(t *testing.T) {
	c := asker(t, http.DefaultClient)
	c.Offline = true
	const public = "https://dl.example.com/nodeup"
	key := sha256.Sum256([]byte(public))
	file := filepath.Join(c.Cache, "hashes", hex.EncodeToString(key[:]))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	for text, known := range map[string]bool{"$(touch canary)": false, "": false, strings.Repeat("a", 63): false, strings.Repeat("a", 64): true} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := c.hash(t.Context(), public, assets.Mirrors{}); (err == nil) != known {
			t.Errorf("%q gives %q, %v", text, got, err)
		}
	}
}

func TestDigestsOfTheEnvironmentAreKnown(t *testing.T) {
	const public = "https://dl.example.com/kubelet"
	w := asker(t, http.DefaultClient)
	w.Offline, w.FileHashes = true, map[string]string{public: strings.Repeat("cd", 32)}
	a := &Assets{Fetched: model.Fetched{Files: map[string]string{public: ""}}}
	if unfound, err := w.Hashes(t.Context(), a); err != nil || len(unfound) > 0 || a.Files[public] != w.FileHashes[public] {
		t.Errorf("%v, %v, %v", a.Files, unfound, err)
	}
}

func TestAProgramThatTheArchiveLacksIsExplained(t *testing.T) {
	w := asker(t, http.DefaultClient)
	_, err := w.hash(t.Context(), programs.Public("1.37.0", "arm64"), assets.Mirrors{})
	if err == nil || !strings.Contains(err.Error(), "KOPS_ARCH") {
		t.Error(err)
	}
}
