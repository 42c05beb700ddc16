package oschain_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/swift"
	"kops.local/kops/internal/store/swift/oschain"
)

// keystone issues tokens for the right secret, and returns the URL of the storage.
func keystone(t *testing.T) *httptest.Server {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("POST /v3/auth/tokens", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if !strings.Contains(string(text), `"secret"`) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("X-Subject-Token", "token for "+compact(t, text))
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"token":{"expires_at":"2099-01-01T00:00:00.000000Z","catalog":[{"type":"object-store","name":"swift","endpoints":[
			{"interface":"public","region":"one","region_id":"one","url":"%[1]s/one/v1/AUTH_p"},{"interface":"public","region":"two","region_id":"two","url":"%[1]s/two/v1/AUTH_p"}]}]}}`, server.URL)
	})
	return server
}

// compact summarizes the methods and the scope of a login.
func compact(t *testing.T, text []byte) string {
	var asked struct {
		Auth struct {
			Identity struct {
				Methods []string `json:"methods"`
			} `json:"identity"`
			Scope json.RawMessage `json:"scope"`
		} `json:"auth"`
	}
	if err := json.Unmarshal(text, &asked); err != nil {
		t.Error(err)
	}
	return fmt.Sprint(asked.Auth.Identity.Methods, " ", string(asked.Auth.Scope))
}

func TestLoginFollowsTheEnvironment(t *testing.T) {
	server := keystone(t)
	file := filepath.Join(t.TempDir(), "config")
	text := "[Default]\nidentity = " + server.URL + "/v3\nuser = me\npassword = secret\ndomain_name = Default\ntenant_id = p\n[Global]\nregion=two\n[Other]\npassword=wrong\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	at := "OS_AUTH_URL=" + server.URL + "/v3 "
	for env, want := range map[string]swift.Session{
		at + "OS_USERNAME=me OS_PASSWORD=secret OS_PROJECT_NAME=p OS_DOMAIN_NAME=Default OS_REGION_NAME=two": {Endpoint: server.URL + "/two/v1/AUTH_p/",
			Token: `token for [password] {"project":{"domain":{"name":"Default"},"name":"p"}}`},
		at + "OS_USERNAME=me OS_PASSWORD=secret OS_PROJECT_NAME=p OS_USER_DOMAIN_ID=u OS_PROJECT_DOMAIN_NAME=d OS_REGION_NAME=one": {Endpoint: server.URL + "/one/v1/AUTH_p/",
			Token: `token for [password] {"project":{"domain":{"name":"d"},"name":"p"}}`},
		at + "OS_USER_ID=1 OS_PASSWORD=secret OS_PROJECT_ID=p OS_REGION_NAME=one": {Endpoint: server.URL + "/one/v1/AUTH_p/", Token: `token for [password] {"project":{"id":"p"}}`},
		at + "OS_APPLICATION_CREDENTIAL_ID=a OS_APPLICATION_CREDENTIAL_SECRET=secret OS_PROJECT_NAME=p OS_REGION_NAME=one": {Endpoint: server.URL + "/one/v1/AUTH_p/",
			Token: `token for [application_credential]`},
		"OPENSTACK_CREDENTIAL_FILE=" + file:                                                                 {Endpoint: server.URL + "/two/v1/AUTH_p/", Token: `token for [password] {"project":{"id":"p"}}`},
		at + "OS_USERNAME=me OS_PASSWORD=wrong OS_PROJECT_ID=p OS_DOMAIN_NAME=Default":                      {},
		at + "OS_USERNAME=me OS_PASSWORD=secret OS_PROJECT_ID=p OS_DOMAIN_NAME=Default OS_REGION_NAME=none": {},
		"OPENSTACK_CREDENTIAL_FILE=/absent":                                                                 {},
	} {
		got, err := oschain.Login(variables(env), server.Client())(t.Context())
		if got != want || (err != nil) != (want == swift.Session{}) || err != nil && (!fault.Is(err, fault.Denied) || !strings.Contains(fault.Remedy(err), "OS_AUTH_URL")) {
			t.Errorf("%s\ngot  %+v, %v\nwant %+v", env, got, err, want)
		}
	}
}

func variables(text string) func(string) string {
	env := map[string]string{}
	for v := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	return func(name string) string { return env[name] }
}
