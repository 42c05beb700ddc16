package aws

import (
	"maps"
	"testing"

	"kops.local/kops/internal/platform/aws/awstest"
	awsspec "kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/test/clitest"
)

// world is an account at an emulator, a proxy in front of it, and a user.
type world struct {
	*clitest.Proxied
	server *awstest.Server
}

const (
	bucket = "state-store"
	region = "us-east-1"
)

// newWorld resets the server, which tests share, and creates the state store.
func newWorld(t testing.TB, server *awstest.Server) *world {
	server.Reset(t)
	server.Bucket(t, bucket)
	w := &world{Proxied: &clitest.Proxied{User: clitest.NewUser(t, awsspec.Platform()), Proxy: awstest.Proxy(t, server.URL), Cluster: name}, server: server}
	maps.Copy(w.Env, map[string]string{
		"KOPS_STATE_STORE": "s3://" + bucket,
		"AWS_ENDPOINT_URL": w.Proxy.URL, "AWS_REGION": region,
		"AWS_ACCESS_KEY_ID": server.AccessKey, "AWS_SECRET_ACCESS_KEY": server.SecretKey,
		"KOPS_STATE_S3_WITHOUT_LOCKS": "true", // it stands in for Amazon's, which need not prove that it supports conditions
		"S3_ENDPOINT":                 w.Proxy.URL, "S3_REGION": region,
		"S3_ACCESS_KEY_ID": server.AccessKey, "S3_SECRET_ACCESS_KEY": server.SecretKey,
	})
	return w
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
