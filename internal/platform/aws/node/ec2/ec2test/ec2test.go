// Package ec2test emulates the metadata service of an instance, for tests.
package ec2test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kops.local/kops/internal/platform/aws/awsquery"
)

// Serve starts a metadata service, version 2, with values by their keys below latest/meta-data, and
// returns its URL. It is stopped at the end of the test.
func Serve(t testing.TB, answers map[string]string) string {
	t.Helper()
	s := httptest.NewServer(Handler(answers))
	t.Cleanup(s.Close)
	return s.URL
}

// Handler returns the handler that Serve uses.
func Handler(answers map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") != "" {
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "300")
			_, _ = io.WriteString(w, "session") // the test fails anyway
			return
		}
		text, ok := answers[strings.TrimPrefix(r.URL.Path, "/latest/meta-data/")]
		switch {
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "session":
			w.WriteHeader(http.StatusUnauthorized)
		case !ok:
			http.NotFound(w, r)
		default:
			_, _ = io.WriteString(w, text) // the test fails anyway
		}
	})
}

// Role returns the answers about the role of a machine.
func Role(t testing.TB, name string, c awsquery.Credentials) map[string]string {
	t.Helper()
	text, err := json.Marshal(map[string]string{"Code": "Success", "AccessKeyId": c.ID, "SecretAccessKey": c.Secret, "Token": c.Token})
	if err != nil {
		t.Fatal(err)
	}
	const key = "iam/security-credentials/"
	return map[string]string{key: name + "\n", key + name: string(text)}
}
