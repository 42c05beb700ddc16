package adc_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/gs/adc"
)

// google issues tokens: for a key that signs its assertion, for a federated identity, and
// for an impersonated account.
func google(t *testing.T) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/token" && strings.Count(r.Form.Get("assertion"), ".") == 2:
			_, _ = fmt.Fprint(w, `{"access_token":"of a key","expires_in":3600,"token_type":"Bearer"}`) // the test would fail
		case r.URL.Path == "/sts" && r.Form.Get("subject_token") == "who I am":
			_, _ = fmt.Fprint(w, `{"access_token":"of a federation","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","expires_in":3600,"token_type":"Bearer"}`)
		case r.URL.Path == "/for/other:generateAccessToken" && r.Header.Get("Authorization") == "Bearer of a key":
			_, _ = fmt.Fprintf(w, `{"accessToken":"of another","expireTime":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339))
		default:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprint(w, `{"error":"invalid_grant"}`)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestCredentialsAreFoundAsGooglesProgramsFindThem(t *testing.T) {
	server, dir := google(t), t.TempDir()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	subject := filepath.Join(dir, "subject")
	if err := os.WriteFile(subject, []byte("who I am"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := map[string]any{"type": "service_account", "client_email": "a@p.iam.gserviceaccount.com", "private_key": text, "token_uri": server.URL + "/token"}
	revoked := map[string]any{"type": "service_account", "client_email": "a@p.iam.gserviceaccount.com", "private_key": text, "token_uri": server.URL + "/revoked"}
	for want, file := range map[string]map[string]any{
		"of a key": own,
		"of a federation": {"type": "external_account", "audience": "//iam.googleapis.com/x", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
			"token_url": server.URL + "/sts", "credential_source": map[string]any{"file": subject}},
		"of another": {"type": "impersonated_service_account", "service_account_impersonation_url": server.URL + "/for/other:generateAccessToken", "source_credentials": own},
		"":           revoked,
	} {
		data, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "credentials.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", path)
		got, err := adc.Source(server.Client())(t.Context())
		if want != "" && (err != nil || got.Access != want || time.Until(got.Expires) < 50*time.Minute) {
			t.Errorf("%s: %v, %v", want, got, err)
		}
		if want == "" && (!fault.Is(err, fault.Denied) || !strings.Contains(fault.Remedy(err), "gcloud auth application-default login")) {
			t.Errorf("a key that is none any more: %v, %v", got, err)
		}
	}
}

func TestNoCredentialsAreDenied(t *testing.T) {
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "absent.json"))
	if _, err := adc.Source(http.DefaultClient)(t.Context()); !fault.Is(err, fault.Denied) || fault.Remedy(err) == "" || !strings.HasPrefix(err.Error(), "find Google credentials: ") {
		t.Errorf("%v", err)
	}
}
