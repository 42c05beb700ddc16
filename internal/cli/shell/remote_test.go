package shell

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kops.local/kops/world"
)

func TestObjectsOfAWebServer(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cluster.yaml":
			_, _ = w.Write([]byte("kind: Cluster"))
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		case "/metadata":
			http.Redirect(w, r, "https://169.254.169.254/latest", http.StatusFound)
		case "/plain":
			http.Redirect(w, r, "http://example.com/", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	transport := world.Transport()
	transport.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
	client := (&App{System: System{Env: func(string) string { return "" }}}).clientOver(transport)
	if text, err := fetch(t.Context(), client, s.URL+"/cluster.yaml"); err != nil || string(text) != "kind: Cluster" {
		t.Errorf("%q, %v", text, err)
	}
	for path, says := range map[string]string{"/endless": "longer than 67108864 bytes", "/metadata": "own services", "/plain": "from TLS", "/none": "404"} {
		if _, err := fetch(t.Context(), client, s.URL+path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", path, err, says)
		}
	}
	if _, err := fetch(t.Context(), client, "https://169.254.169.254/x"); err == nil || !strings.Contains(err.Error(), "own services") {
		t.Errorf("this machine's own services: %v", err)
	}
}

func TestObjectsAtURLsThatAreRefused(t *testing.T) {
	a := &App{System: System{Env: func(string) string { return "" }}}
	for url, says := range map[string]string{"http://u:hush@h/x": "read http://xxxxx@h/x: it could be modified in transit; use https", "s3://bucket": "does not name a file", "s3://bucket/x/": "does not name a file"} {
		if _, err := a.readObjects(t.Context(), url); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", url, err, says)
		}
	}
}
