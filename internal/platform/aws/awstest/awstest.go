// Package awstest starts servers that stand in for Amazon's in tests: moto, which emulates most of
// AWS, and Versity's gateway, a stricter S3 server on a folder.
//
// It is for tests only, and must know nothing of the engine or of clusters.
package awstest

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"kops.local/kops/internal/store/s3"
	"kops.local/kops/internal/test/servers"
)

// Server is a running server that belongs to one test.
type Server struct {
	// URL is the endpoint, such as http://127.0.0.1:40001. For moto it serves every API.
	URL string
	// Region, AccessKey and SecretKey are what clients must use.
	Region, AccessKey, SecretKey string
}

// AWS returns the configuration for clients of the AWS SDK.
func (s *Server) AWS() aws.Config {
	return aws.Config{
		Region:       s.Region,
		Credentials:  credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, ""),
		BaseEndpoint: aws.String(s.URL),
		HTTPClient: awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConns, t.MaxIdleConnsPerHost = 256, 256
		}),
	}
}

// S3 returns the configuration for the store's buckets. It does not check that the server honors
// conditional requests.
func (s *Server) S3() s3.Config {
	return s3.Config{
		Endpoint:    s.URL,
		Region:      s.Region,
		Credentials: credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, ""),
		Unproven:    true, // tests count objects and requests
	}
}

// Environ returns the environment variables that a program started by a
// test needs to reach the server.
func (s *Server) Environ() []string {
	return []string{
		"AWS_ENDPOINT_URL=" + s.URL, "AWS_REGION=" + s.Region,
		"AWS_ACCESS_KEY_ID=" + s.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.SecretKey,
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null",
		"S3_ENDPOINT=" + s.URL, "S3_REGION=" + s.Region,
		"S3_ACCESS_KEY_ID=" + s.AccessKey, "S3_SECRET_ACCESS_KEY=" + s.SecretKey,
	}
}

// Bucket creates a bucket; it may exist already.
func (s *Server) Bucket(t testing.TB, name string) {
	t.Helper()
	cfg := s.AWS()
	client := sdk.NewFromConfig(cfg, func(o *sdk.Options) { o.UsePathStyle = true })
	_, err := client.CreateBucket(t.Context(), &sdk.CreateBucketInput{Bucket: &name})
	var answer *awshttp.ResponseError
	if err != nil && !(errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusConflict) {
		t.Fatalf("create the bucket %s on %s: %v", name, s.URL, err)
	}
}

// Moto starts a moto server for the test and everything below it, and stops it at
// the end. A server takes two seconds to start, so share one among subtests and
// call Reset, or use a bucket and a cluster name for each. With images, given as OWNER/NAME, it has
// these instead of its many own ones, which take much of the time of a Reset.
func Moto(t testing.TB, images ...string) *Server {
	t.Helper()
	program, err := exec.LookPath("moto_server")
	if err != nil {
		servers.SkipMissing(t, "moto_server is not installed (pip install 'moto[server]')")
	}
	// It chooses its own port and prints it, so that no other process can take it in between.
	url := func(said string) string { return runningOn.FindString(said) }
	s := &Server{Region: "us-east-1", AccessKey: "testing", SecretKey: "testing"}
	cmd := exec.Command(program, "-H", "127.0.0.1", "-p", "0")
	if len(images) > 0 {
		cmd.Env = append(os.Environ(), "MOTO_AMIS_PATH="+writeImages(t, images))
	}
	if s.URL, err = servers.Run(t, cmd, url, "/moto-api/data.json"); err != nil {
		t.Fatal(err)
	}
	return s
}

// runningOn matches the URL in moto's output.
var runningOn = regexp.MustCompile(`http://127\.0\.0\.1:\d+\b`)

// Reset deletes everything on a moto server.
func (s *Server) Reset(t testing.TB) {
	t.Helper()
	answer, err := http.Post(s.URL+"/moto-api/reset", "", nil)
	if err != nil {
		t.Fatalf("reset moto: %v", err)
	}
	answer.Body.Close() // the body is not needed
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("reset moto: %s", answer.Status)
	}
}
