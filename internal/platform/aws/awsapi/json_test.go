package awsapi

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
)

func TestEndpointsOfJSONServices(t *testing.T) {
	const profile = "AWS_CONFIG_FILE"
	for _, tc := range []struct {
		region string
		env    map[string]string
		want   string
	}{
		{"eu-west-1", nil, "https://events.eu-west-1.amazonaws.com"},
		{"cn-north-1", nil, "https://events.cn-north-1.amazonaws.com.cn"},
		{"us-iso-east-1", nil, "https://events.us-iso-east-1.c2s.ic.gov"},
		{"us-east-1", map[string]string{"AWS_USE_FIPS_ENDPOINT": "true"}, "https://events-fips.us-east-1.amazonaws.com"},
		{"us-gov-west-1", map[string]string{"AWS_USE_FIPS_ENDPOINT": "true"}, "https://events.us-gov-west-1.amazonaws.com"},
		{"us-east-1", map[string]string{"AWS_USE_DUALSTACK_ENDPOINT": "true"}, "https://events.us-east-1.api.aws"},
		{"us-east-1", map[string]string{"AWS_ENDPOINT_URL": "http://all:1"}, "http://all:1"},
		{"us-east-1", map[string]string{"AWS_ENDPOINT_URL": "http://all:1", "AWS_ENDPOINT_URL_EVENTBRIDGE": "http://events:1"}, "http://events:1"},
		{"us-east-1", map[string]string{profile: "[default]\nservices = s\n[services s]\neventbridge =\n  endpoint_url = http://profile:1\n"}, "http://profile:1"},
		{"us-east-1", map[string]string{profile: "[default]\nservices = s\n[services s]\neventbridge =\n  endpoint_url = http://profile:1\n", "AWS_ENDPOINT_URL": "http://all:1"}, "http://all:1"},
		{"us-east-1", map[string]string{"AWS_ENDPOINT_URL_EVENTBRIDGE": "http://events:1", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, "https://events.us-east-1.amazonaws.com"},
	} {
		t.Run(fmt.Sprint(tc.region, tc.env), func(t *testing.T) {
			t.Setenv(profile, filepath.Join(t.TempDir(), "config"))
			for k, v := range tc.env {
				if k == profile {
					if err := os.WriteFile(os.Getenv(profile), []byte(v), 0o600); err != nil {
						t.Fatal(err)
					}
					continue
				}
				t.Setenv(k, v)
			}
			c, err := Connect(t.Context(), Config{Region: tc.region, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := c.Events.endpoint(t.Context()); err != nil || strings.TrimSuffix(got, "/") != tc.want {
				t.Errorf("got %s, %v; want %s", got, err, tc.want)
			}
		})
	}
}

func TestListReadsAllPages(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, r.ContentLength)
		r.Body.Read(body)
		if r.Header.Get("X-Amz-Target") != "AmazonSQS.ListQueues" || r.Header.Get("Content-Type") != "application/x-amz-json-1.0" ||
			!strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/sqs/aws4_request") || r.Header.Get("User-Agent") != "kops/1.2.3" {
			t.Errorf("the request has the headers %v", r.Header)
		}
		switch string(body) {
		case `{"QueueNamePrefix":"a"}`:
			fmt.Fprint(w, `{"QueueUrls":["1","2"],"NextToken":"n"}`)
		case `{"NextToken":"n","QueueNamePrefix":"a"}`:
			fmt.Fprint(w, `{"QueueUrls":["3"]}`)
		default:
			t.Errorf("the request is %s", body)
		}
	})
	in := Fields{"QueueNamePrefix": "a"}
	got, err := List[string](t.Context(), c.SQS, "ListQueues", "QueueUrls", in)
	if err != nil || !slices.Equal(got, []string{"1", "2", "3"}) || len(in) != 1 {
		t.Errorf("got %v, %v; the request is %v after it", got, err, in)
	}
}
