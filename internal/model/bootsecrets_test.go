package model_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/engine/resource"
	aws "kops.local/kops/internal/platform/aws/spec"
	azure "kops.local/kops/internal/platform/azure/spec"
	gce "kops.local/kops/internal/platform/gce/spec"
	openstack "kops.local/kops/internal/platform/openstack/spec"
	"kops.local/kops/internal/platform/traits"
)

// curl responds like metadata services, writes its arguments to a file, and redirects the real
// curl's requests for a store to the test's server.
const curl = `#!/bin/bash
echo "$*" >> "${DIR}/arguments"
case "$*" in
  */api/token*) echo IMDS-SECRET ;;
  */security-credentials/*)
    grep -q 'header = "X-aws-ec2-metadata-token: IMDS-SECRET"' || exit 22
    [[ "$*" == *credentials/ ]] && echo role && exit
    echo '{"AccessKeyId" : "AKID", "SecretAccessKey" : "KEY-SECRET/+=", "Token" : "SESSION-SECRET=="}' ;;
  *computeMetadata*|*metadata/identity*) echo '{"access_token":"TOKEN-SECRET.-_~","expires_in":3599}' ;;
  *https://identity.example.com/v3/auth/tokens)
    grep -q '"application_credential":{"id":"me","secret":"LOGIN-SECRET\\\\+="}' || exit 22
    printf 'HTTP/1.1 201 Created\r\nX-Subject-Token: TOKEN-SECRET\r\n\r\n'
    echo '{"token": {"catalog": [{"endpoints": [{"interface": "public", "region": "r", "url": "http://other.example.com"}], "type": "compute"},'
    echo '{"endpoints": [{"interface": "admin", "region": "r", "url": "http://admin.example.com"}, {"interface": "public", "region": "q", "url": "http://far.example.com"}, {"interface": "public", "region": "r", "url": "http://swift.example.com/v1/AUTH_p"}], "type": "object-store"},'
    echo '{"endpoints": [{"interface": "public", "region": "r", "url": "http://last.example.com"}], "type": "image"}]}}' ;;
  *--head*) ;;
  *) exec "${REAL}" --silent --aws-sigv4 aws:amz:us-test-1:s3 --config - "${SERVER}" ;;
esac
`

// TestTheScriptKeepsSecretsOutOfArguments runs the script's access to a store: every user of the
// machine may read the arguments of its processes.
func TestTheScriptKeepsSecretsOutOfArguments(t *testing.T) {
	realCurl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("THE BOOT SCRIPT IS NOT RUN: curl is not installed")
	}
	keys := storekeys.Pair{ID: `a\b"c`, Secret: "OTHER-SECRET"}
	for name, c := range map[string]struct {
		traits               traits.Traits
		base, at, auth, want string // at is the place, and auth the header with the credentials
		env                  []string
	}{
		"AWS": {aws.Platform().Traits, "s3://state/c", "https://state.s3.us-test-1.amazonaws.com/c/nodeup", "Authorization", "AWS4-HMAC-SHA256 Credential=AKID/", nil},
		"another S3": {aws.Platform().Traits, "s3://state/c", "https://s3.example.com/state/c/nodeup", "Authorization", "AWS4-HMAC-SHA256 Credential=a\\b\"c/",
			[]string{"S3_ENDPOINT=s3.example.com", `S3_ACCESS_KEY_ID=a\b"c`, "S3_SECRET_ACCESS_KEY=OTHER-SECRET"}},
		"user data":                  {aws.Platform().Traits, "hos://state/c", "https://s3.example.com/state/c/nodeup", "Authorization", "AWS4-HMAC-SHA256 Credential=a\\b\"c/", []string{"S3_ENDPOINT=s3.example.com", "STORE_KEYS=" + keys.Encode()}},
		"Google":                     {gce.Platform().Traits, "gs://state/c", "https://storage.googleapis.com/state/c/nodeup", "Authorization", "Bearer TOKEN-SECRET.-_~", nil},
		"Azure":                      {azure.Platform().Traits, "azureblob://account/state/c", "https://account.blob.core.windows.net/state/c/nodeup", "Authorization", "Bearer TOKEN-SECRET.-_~", nil},
		"Azure in China":             {azure.Platform().Traits, "azureblob://account/state/c", "https://account.blob.core.chinacloudapi.cn/state/c/nodeup", "Authorization", "Bearer TOKEN-SECRET.-_~", []string{"AZURE_ENVIRONMENT=AzureChinaCloud"}},
		"OpenStack without a region": {openstack.Platform().Traits, "swift://state/c", "http://far.example.com/state/c/nodeup", "X-Auth-Token", "TOKEN-SECRET", []string{"OS_AUTH_URL=https://identity.example.com/v3/"}},
		"OpenStack":                  {openstack.Platform().Traits, "swift://state/c", "http://swift.example.com/v1/AUTH_p/state/c/nodeup", "X-Auth-Token", "TOKEN-SECRET", []string{"OS_AUTH_URL=https://identity.example.com/v3/", "OS_REGION_NAME=r"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got http.Header
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
			defer server.Close()
			in := input(t, golden+"minimal-dns-none")
			in.Cluster.Spec.ConfigStore.Base = c.base
			own := *in.Traits
			own.Store = c.traits.Store
			in.Traits = &own
			if name == "user data" {
				in = withKeysInUserData(in, keys)
			}
			text := script(t, in, group(t, in, api.RoleControlPlane), resource.Value{})
			from, to := strings.Index(text, "\nfailed()"), strings.Index(text, "\n# valid FILE")
			if from < 0 || to < 0 {
				t.Fatalf("the script has other functions:\n%s", text)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "curl"), []byte(curl), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "cloud.config"), []byte("[global]\nauth-url=\"https://elsewhere\"\napplication-credential-id = me\napplication-credential-secret=\"LOGIN-SECRET\\+=\"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			functions := strings.ReplaceAll(text[from:to], "/etc/kubernetes/cloud.config", filepath.Join(dir, "cloud.config"))
			cmd := exec.CommandContext(t.Context(), "bash", "-c", functions+"\nset -o pipefail\nfetch '"+filepath.Join(dir, "file")+"' "+strings.Replace(c.base, "hos:", "s3:", 1)+"/nodeup")
			cmd.Env = append([]string{"PATH=" + dir + ":" + os.Getenv("PATH"), "AWS_REGION=us-test-1", "DIR=" + dir, "REAL=" + realCurl, "SERVER=" + server.URL}, c.env...)
			out, err := cmd.CombinedOutput()
			arguments, readErr := os.ReadFile(filepath.Join(dir, "arguments"))
			if readErr != nil || len(arguments) == 0 || strings.Contains(string(arguments), "SECRET") {
				t.Errorf("%v; curl is started with\n%s", readErr, arguments)
			}
			if !strings.HasSuffix(strings.TrimSpace(string(arguments)), " "+c.at) {
				t.Errorf("%s is not fetched with\n%s", c.at, arguments)
			}
			if !strings.HasPrefix(got.Get(c.auth), c.want) || name == "AWS" && got.Get("X-Amz-Security-Token") != "SESSION-SECRET==" {
				t.Errorf("the store is asked with %v: %v\n%s", got, err, out)
			}
		})
	}
}
