package azchain_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/azureblob/azchain"
)

// authority stands in for the identity provider.
type authority struct{ asked map[string]bool }

func (a authority) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked[r.URL.Host] = true
	body := `{"token_endpoint":"https://` + r.URL.Host + `/tenant/oauth2/v2.0/token","authorization_endpoint":"https://` + r.URL.Host + `/tenant/authorize","issuer":"https://` + r.URL.Host + `/tenant/v2.0",
		"tenant_discovery_endpoint":"https://` + r.URL.Host + `/tenant/v2.0/.well-known/openid-configuration","metadata":[]}`
	status := http.StatusOK
	if r.Method == http.MethodPost {
		body = `{"access_token":"of ` + r.URL.Host + `","expires_in":3600,"token_type":"Bearer"}`
		if err := r.ParseForm(); err != nil || r.Form.Get("client_secret") != "secret" || r.Form.Get("scope") == "" {
			status, body = http.StatusUnauthorized, `{"error":"invalid_client"}`
		}
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func TestCredentialsOfTheEnvironment(t *testing.T) {
	t.Setenv("PATH", "") // az would be called, too
	t.Setenv("AZURE_TENANT_ID", "tenant")
	t.Setenv("AZURE_CLIENT_ID", "client")
	t.Setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")
	for environment, host := range map[string]string{"": "login.microsoftonline.com", "AzureChinaCloud": "login.chinacloudapi.cn", "AzureUSGovernmentCloud": "login.microsoftonline.us"} {
		for secret, ok := range map[string]bool{"secret": true, "wrong": false} {
			t.Setenv("AZURE_CLIENT_SECRET", secret)
			got, err := azchain.Source(&http.Client{Transport: authority{map[string]bool{}}}, environment)(t.Context())
			if ok && (got != "of "+host || err != nil) {
				t.Errorf("%s: %q, %v", environment, got, err)
			}
			if !ok && (!fault.Is(err, fault.Denied) || !strings.Contains(fault.Remedy(err), "az login")) {
				t.Errorf("%s, with a secret that is none: %q, %v", environment, got, err)
			}
		}
	}
}
