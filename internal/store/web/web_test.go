package web_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/web"
)

// TestRedirectsLeadCredentialsNowhereElse follows a redirect on the same host, and one to another.
func TestRedirectsLeadCredentialsNowhereElse(t *testing.T) {
	got := map[string]http.Header{}
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got[r.URL.Path] = r.Header }))
	defer other.Close()
	var own *httptest.Server
	own = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got[r.URL.Path] = r.Header
		if to := map[string]string{"/here": own.URL + "/mine", "/there": other.URL + "/others"}[r.URL.Path]; to != "" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
		}
	}))
	defer own.Close()
	client := &http.Client{CheckRedirect: web.KeepTLS}
	for _, path := range []string{"/here", "/there"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, own.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"X-Auth-Token": {"SECRET"}, "Authorization": {"SECRET"}, "Range": {"bytes=0-1"}}
		answer, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close() // it is empty
	}
	for path, want := range map[string]string{"/mine": "SECRET", "/others": ""} {
		if h := got[path]; h.Get("X-Auth-Token") != want || h.Get("Authorization") != want && path == "/others" || h.Get("Range") != "bytes=0-1" {
			t.Errorf("%s gets %v", path, h)
		}
	}
}

func TestRedirectsKeepTLS(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	var to string
	tls := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, to, http.StatusFound)
		}
	}))
	defer tls.Close()
	client := tls.Client()
	client.CheckRedirect = web.KeepTLS
	for place, wrong := range map[string]string{tls.URL + "/file": "", plain.URL: "redirects from TLS", tls.URL + "/": "redirects 10 times"} {
		to = place
		resp, err := client.Get(tls.URL)
		if err == nil {
			resp.Body.Close()
		}
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("to %s: %v", place, err)
		}
	}
}

// silentServer does not answer in time.
type silentServer struct{ asked int }

func (s *silentServer) RoundTrip(*http.Request) (*http.Response, error) {
	s.asked++
	return nil, os.ErrDeadlineExceeded
}

func TestASilentServerIsAskedThreeTimes(t *testing.T) {
	synctest.Test(t, aSilentServerIsAskedThreeTimes)
}

func aSilentServerIsAskedThreeTimes(t *testing.T) {
	s := &silentServer{}
	a, err := web.Do(t.Context(), &http.Client{Transport: s}, func() (*http.Request, error) {
		return http.NewRequestWithContext(t.Context(), http.MethodGet, "https://e.com", nil)
	}, nil)
	if !errors.Is(err, os.ErrDeadlineExceeded) || s.asked != 3 || a.Tries != 3 {
		t.Errorf("asked %d times: %v", s.asked, err)
	}
}

func TestASpecNamesNoServiceOfTheMachine(t *testing.T) {
	for place, refused := range map[string]bool{
		"http://169.254.169.254/latest": true, "http://[fe80::1%25lo]/": true, "http://[fd00:ec2::254]/": true, "http://[::ffff:169.254.169.254]/": true,
		"http://10.0.0.1/": false, "http://127.0.0.1/": false, "https://[2001:db8::1]/": false, "https://e.com/": false,
	} {
		u, err := url.Parse(place)
		if err != nil {
			t.Fatal(err)
		}
		if err := web.CheckURL(web.WithSpecURL(t.Context()), u); (err != nil) != refused || refused && fault.Of(err) != fault.Permanent {
			t.Errorf("%s: %v", place, err)
		}
		if err := web.CheckURL(t.Context(), u); err != nil {
			t.Errorf("%s, which no spec names: %v", place, err)
		}
	}
}

func TestANameDoesNotHideTheAddress(t *testing.T) {
	control := web.Dialer().ControlContext
	if err := control(web.WithSpecURL(t.Context()), "tcp4", "169.254.169.254:80", nil); err == nil || !strings.Contains(err.Error(), "169.254.169.254 is an address") {
		t.Errorf("%v", err)
	}
	if err := control(t.Context(), "tcp4", "169.254.169.254:80", nil); err != nil {
		t.Errorf("a request that no spec asks for: %v", err)
	}
}
