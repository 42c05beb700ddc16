package rehearsal

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/internal/platform/rehearsal"
	"kops.local/kops/internal/test/servers"
)

// The real Cloud Storage emulator runs in its own network namespace, and its play forwards requests
// to it.
func TestObjectsAreReachedByTheirPlayAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: networks are made by root")
	}
	dir := t.TempDir()
	if err := os.Symlink(servers.Tool(t, "fakegcs", "github.com/fsouza/fake-gcs-server"), filepath.Join(dir, program)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	o, err := startObjectServer(t.Context(), rehearsal.Options{Stores: []string{"state"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodPost, "http://storage.googleapis.com/upload/storage/v1/b/state/o?uploadType=media&name=a", strings.NewReader("text")),
		httptest.NewRequest(http.MethodGet, "http://storage.googleapis.com/storage/v1/b/state/o/a?alt=media", nil),
	} {
		w := httptest.NewRecorder()
		if o.ServeHTTP(w, r); w.Code != http.StatusOK || r.Method == http.MethodGet && w.Body.String() != "text" {
			t.Errorf("%s %s: %d %s", r.Method, r.URL, w.Code, w.Body)
		}
	}
}
