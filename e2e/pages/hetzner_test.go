package pages

import (
	"context"
	"maps"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/platform/hetzner/emulator"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	hetznerspec "kops.local/kops/internal/platform/hetzner/spec"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/s3"
	"kops.local/kops/internal/test/clitest"
)

// hetznerPage is the page whose commands need Hetzner Cloud.
const hetznerPage = "docs/hetzner.md"

// newHetznerReader creates a reader with a project at an emulator of Hetzner Cloud, and with an object
// storage that checks keys.
func newHetznerReader(t *testing.T, kops string, admin *rest.Config) *reader {
	t.Helper()
	const token = "0123456789012345678901234567890123456789012345678901234567890123"
	project, err := emulator.New(emulator.Options{Token: token, Boot: 50 * time.Millisecond, OnBug: func(err error) { t.Errorf("the emulator: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	server, objects := httptest.NewServer(project), awstest.Versity(t)
	t.Cleanup(server.Close)
	objects.Bucket(t, "my-clusters")
	state, err := store.Backends{s3.Compatible(objects.S3())}.Open(t.Context(), "hos://my-clusters")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{TB: t, name: "demo.example.com", state: state, machines: hetznerServers(project), admin: admin}
	i := newInternet(t, c.serve())
	r := &reader{User: clitest.NewUser(t, hetznerspec.Platform())}
	maps.Copy(r.Env, map[string]string{
		"PATH": programs(t, kops, "") + ":" + os.Getenv("PATH"), hetznercloud.TokenVariable: token, hetznercloud.EndpointVariable: server.URL + emulator.Base,
		"S3_ENDPOINT": objects.URL, "S3_ACCESS_KEY_ID": objects.AccessKey, "S3_SECRET_ACCESS_KEY": objects.SecretKey, "HTTPS_PROXY": i.url, "SSL_CERT_FILE": i.authority,
	})
	r.Cleanup(func() {
		if left := project.Inventory(); !r.Failed() && len(left) > 0 {
			r.Errorf("the page leaves %v", left)
		}
	})
	return r
}

// hetznerServers lists the servers of an emulated project.
func hetznerServers(project *emulator.Emulator) func(context.Context) ([]machine, error) {
	return func(context.Context) ([]machine, error) {
		var out []machine
		for _, s := range project.Servers() {
			out = append(out, machine{name: s.Name, group: s.Labels[hetznercloud.GroupLabel], provider: hetznercloud.ProviderPrefix + strconv.FormatInt(s.ID, 10),
				controlPlane: s.Labels[hetznercloud.RoleLabel] == string(api.RoleControlPlane)})
		}
		return out, nil
	}
}
