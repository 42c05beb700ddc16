package cli_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/test/proxy"
)

// From some write on, the state store cannot be reached for a while; the command continues after
// that.
func TestAShortInterruptionOfTheStateStoreIsSurvived(t *testing.T) {
	server := awstest.Moto(t)
	server.Bucket(t, "state")
	p := awstest.Proxy(t, server.URL)
	const long = 7 // number of attempts for a single request
	var lost atomic.Int32
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if broken := recover(); broken != nil {
				if lost.Add(1) == long-1 {
					p.Restore()
				}
				panic(broken)
			}
		}()
		p.ServeHTTP(w, r)
	}))
	defer front.Close()
	s := newSession(t.TempDir())
	env := map[string]string{"KOPS_STATE_STORE": "s3://state", "S3_ENDPOINT": front.URL, "S3_REGION": server.Region,
		"S3_ACCESS_KEY_ID": server.AccessKey, "S3_SECRET_ACCESS_KEY": server.SecretKey}
	kops := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := s.run(t, nil, &out, &errs, func(k string) string { return env[k] }, args); code != 0 {
			t.Fatalf("kops %s: exit %d\n%s%s", strings.Join(args, " "), code, out.String(), errs.String())
		}
		return out.String()
	}
	for name, cut := range map[string]proxy.Cut{
		"a.example.com": {At: 1},               // the write that takes the lease
		"b.example.com": {At: 1, After: true},  // the same, but after it took effect
		"c.example.com": {At: 20, After: true}, // in the middle of the other writes
	} {
		kops("create", "cluster", "--cloud", "fake", "--zones", "here", name)
		lost.Store(0)
		p.Reset()
		p.SetCut(cut)
		kops("update", "cluster", name, "--yes")
		if n := lost.Load(); n < long-1 {
			t.Errorf("%s: only %d requests were cut", name, n)
		}
		if out := kops("update", "cluster", name); !strings.Contains(out, "No changes") {
			t.Errorf("%s: something is left to do:\n%s", name, out)
		}
		if out := kops("toolbox", "lock", "show", name); !strings.Contains(out, "No one holds") {
			t.Errorf("%s: %s", name, out)
		}
		kops("delete", "cluster", name, "--yes")
	}
}
