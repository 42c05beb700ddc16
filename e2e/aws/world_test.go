package aws

import (
	"maps"
	"testing"

	"kops.local/kops/internal/platform/aws/awstest"
	awsspec "kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/test/clitest"
	"kops.local/kops/internal/test/proxy"
)

// world is an account at an emulator, a proxy before it, and a user.
type world struct {
	*clitest.User
	server *awstest.Server
	proxy  *proxy.Proxy
}

const (
	bucket = "state-store"
	region = "us-east-1"
)

// newWorld resets the server, which tests share, and makes the state store.
func newWorld(t testing.TB, server *awstest.Server) *world {
	server.Reset(t)
	server.Bucket(t, bucket)
	w := &world{User: clitest.NewUser(t, awsspec.Platform()), server: server, proxy: awstest.Proxy(t, server.URL)}
	maps.Copy(w.Env, map[string]string{
		"KOPS_STATE_STORE": "s3://" + bucket,
		"AWS_ENDPOINT_URL": w.proxy.URL, "AWS_REGION": region,
		"AWS_ACCESS_KEY_ID": server.AccessKey, "AWS_SECRET_ACCESS_KEY": server.SecretKey,
		"S3_ENDPOINT": w.proxy.URL, "S3_REGION": region,
		"S3_ACCESS_KEY_ID": server.AccessKey, "S3_SECRET_ACCESS_KEY": server.SecretKey,
	})
	return w
}

// counted runs a command line that has to succeed, and returns how many requests it made.
func (w *world) counted(args ...string) (clitest.Result, int) {
	w.Helper()
	w.proxy.Reset()
	r := w.Must(args...)
	return r, w.proxy.Requests()
}

// objects lists the keys in the state store.
func (w *world) objects() []string {
	w.Helper()
	var out []string
	s := openBucket(w, w.server)
	for i, err := range s.List(w.Context(), "") {
		if err != nil {
			w.Fatal(err)
		}
		out = append(out, i.Key)
	}
	return out
}
