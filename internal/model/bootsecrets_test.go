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
	"kops.local/kops/internal/engine/resource"
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
	for name, c := range map[string]struct {
		golden, base, want string
		env                []string
	}{
		"AWS":        {"minimal-dns-none", "s3://state/c", "AWS4-HMAC-SHA256 Credential=AKID/", nil},
		"another S3": {"minimal-dns-none", "s3://state/c", "AWS4-HMAC-SHA256 Credential=a\\b\"c/", []string{"S3_ENDPOINT=s3.example.com", `S3_ACCESS_KEY_ID=a\b"c`, "S3_SECRET_ACCESS_KEY=OTHER-SECRET"}},
		"Google":     {"minimal-dns-none", "gs://state/c", "Bearer TOKEN-SECRET.-_~", nil},
		"Azure":      {"minimal-dns-none", "azureblob://account/state/c", "Bearer TOKEN-SECRET.-_~", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got http.Header
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
			defer server.Close()
			in := input(t, golden+c.golden)
			in.Cluster.Spec.ConfigStore.Base = c.base
			text := script(t, in, group(t, in, api.RoleControlPlane), resource.Value{})
			from, to := strings.Index(text, "\nfailed()"), strings.Index(text, "\n# valid FILE")
			if from < 0 || to < 0 {
				t.Fatalf("the script has other functions:\n%s", text)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "curl"), []byte(curl), 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-c", text[from:to]+"\nset -o pipefail\nfetch '"+filepath.Join(dir, "file")+"' "+c.base+"/nodeup")
			cmd.Env = append([]string{"PATH=" + dir + ":" + os.Getenv("PATH"), "AWS_REGION=us-test-1", "DIR=" + dir, "REAL=" + realCurl, "SERVER=" + server.URL}, c.env...)
			out, err := cmd.CombinedOutput()
			arguments, readErr := os.ReadFile(filepath.Join(dir, "arguments"))
			if readErr != nil || len(arguments) == 0 || strings.Contains(string(arguments), "SECRET") {
				t.Errorf("%v; curl is started with\n%s", readErr, arguments)
			}
			if !strings.HasPrefix(got.Get("Authorization"), c.want) || name == "AWS" && got.Get("X-Amz-Security-Token") != "SESSION-SECRET==" {
				t.Errorf("the store is asked with %v: %v\n%s", got, err, out)
			}
		})
	}
}
