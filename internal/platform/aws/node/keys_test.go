package node

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/platform/onmachine"
)

func TestAMachineReadsTheKeysOfItsStore(t *testing.T) {
	server := awstest.Moto(t)
	client := ssm.NewFromConfig(server.AWS())
	for name, text := range map[string]string{"/kops/c/s3-keys": storekeys.Pair{ID: "id", Secret: "secret"}.Encode(), "/kops/c/word": "a word"} {
		_, err := client.PutParameter(t.Context(), &ssm.PutParameterInput{Name: aws.String(name), Value: &text, Type: ssmtypes.ParameterTypeSecureString})
		if err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, awsquery.Credentials{ID: server.AccessKey, Secret: server.SecretKey, Token: "session"}, server.URL)
	if got, err := storeKeys(t.Context(), w, "/kops/c/s3-keys"); err != nil || got != (onmachine.Credentials{ID: "id", Secret: "secret"}) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := storeKeys(t.Context(), w, "/kops/c/word"); !fault.Is(err, fault.Permanent) || !strings.Contains(err.Error(), "read the parameter /kops/c/word: the keys are not in base64") {
		t.Errorf("of something else: %v", err)
	}
	if _, err := storeKeys(t.Context(), w, "/kops/c/gone"); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "ParameterNotFound") {
		t.Errorf("of nothing: %v", err)
	}
}

func TestAMachineThatMayNotReadTheKeysNamesThePermission(t *testing.T) {
	for body, class := range map[string]fault.Class{
		`{"__type":"com.amazon.coral.service#AccessDeniedException","message":"no"}`: fault.Denied,
		`{"__type":"ThrottlingException"}`:                                           fault.Throttled,
		"<html>":                                                                     fault.NotYet,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("X-Amz-Target"); got != "AmazonSSM.GetParameter" || !strings.Contains(r.Header.Get("Authorization"), "/us-east-1/ssm/") {
				t.Errorf("asked is %q with %v", got, r.Header)
			}
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, body) // the test fails anyway
		}))
		w := newWorld(t, awsquery.Credentials{ID: "id", Secret: "secret", Token: "session"}, server.URL)
		_, err := storeKeys(t.Context(), w, "/kops/c/s3-keys")
		if !fault.Is(err, class) || class == fault.Denied && !strings.Contains(fault.Remedy(err), "ssm:GetParameter") {
			t.Errorf("%s: %v (%s)", body, err, fault.Remedy(err))
		}
		server.Close()
	}
}
