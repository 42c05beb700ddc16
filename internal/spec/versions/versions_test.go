package versions_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/blang/semver/v4"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/versions"
)

func embedded(t *testing.T, name string) *versions.Channel {
	t.Helper()
	c, ok := versions.Embedded(name)
	if !ok {
		t.Fatalf("%s is not embedded", name)
	}
	return c
}

func TestNewClustersGetTheVersionForTheRunningKops(t *testing.T) {
	for kops, want := range map[string]string{
		"1.37.0-alpha.1": "1.36.3", "v1.36.2": "1.36.3", "1.35.0": "1.35.7", "1.34.0-beta.1": "1.34.10", "1.20.0": "", "dev": "1.36.3",
	} {
		for _, name := range []string{versions.Stable, versions.Alpha} {
			if got := embedded(t, name).NewClusterVersion(kops); got != want {
				t.Errorf("kops %s and channel %s give %q, want %q", kops, name, got, want)
			}
		}
	}
	if got := embedded(t, versions.None).NewClusterVersion("1.37.0"); got != "" {
		t.Errorf("no channel gives %q", got)
	}
}

func TestImagesByCloudArchitectureAndVersion(t *testing.T) {
	c := embedded(t, versions.Stable)
	for _, x := range []struct {
		cloud         api.CloudProviderID
		arch, version string
		want          string
	}{
		{api.CloudAWS, "amd64", "1.36.3", "099720109477/ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20260714"},
		{api.CloudAWS, "arm64", "1.32.0", "099720109477/ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-arm64-server-20260714"},
		{api.CloudGCE, "", "1.36.0-rc.1", "ubuntu-os-cloud/ubuntu-2404-noble-amd64-v20260615"},
		{api.CloudAzure, "arm64", "1.35.0", "Canonical:ubuntu-24_04-lts:server-arm64:24.04.202606060"},
		{api.CloudAWS, "amd64", "1.31.0", ""},
		{api.CloudHetzner, "amd64", "1.36.0", ""},
	} {
		if got := c.Image(x.cloud, x.arch, semver.MustParse(x.version)); got != x.want {
			t.Errorf("%s %s %s is %q, want %q", x.cloud, x.arch, x.version, got, x.want)
		}
	}
	var none *versions.Channel
	if got := none.Image(api.CloudAWS, "amd64", semver.MustParse("1.36.0")); got != "" {
		t.Errorf("no channel has the image %q", got)
	}
}

func TestUpgradesGoOneMinorVersionAtMost(t *testing.T) {
	c := embedded(t, versions.Stable)
	for _, x := range []struct{ current, kops, want string }{
		{"1.36.0", "1.37.0", "1.36.3"},
		{"v1.36.3", "1.37.0", "1.36.3"},
		{"1.36.9", "1.37.0", "1.36.9"},
		{"1.35.4", "1.37.0", "1.36.3"},
		{"1.34.2", "1.37.0", "1.35.7"},
		{"1.35.1", "1.35.2", "1.35.7"},
		{"1.32.1", "1.36.0", "1.33.13"},
		{"1.31.4", "1.37.0", "1.32.13"},
		{"nonsense", "1.37.0", "nonsense"},
	} {
		if got := c.UpgradeVersion(x.current, x.kops); got != x.want {
			t.Errorf("%s with kops %s goes to %s, want %s", x.current, x.kops, got, x.want)
		}
	}
}

// TestTheRecommendedReleases compares each minor version of both channels with what kOps' channels
// recommend.
func TestTheRecommendedReleases(t *testing.T) {
	data, err := os.ReadFile("testdata/recommended.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{versions.Stable, versions.Alpha} {
		want := map[string]string{}
		for line := range strings.Lines(string(data)) {
			if minor, release, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				want[minor] = release
			}
		}
		for minor := uint64(0); minor < 60; minor++ {
			v, ok := embedded(t, name).Newest(1, minor)
			key := fmt.Sprintf("1.%d", minor)
			if got := v.String(); ok && got != want[key] {
				t.Errorf("%s recommends %s of %s, want %q", name, got, key, want[key])
			}
			if ok {
				delete(want, key)
			}
		}
		if len(want) > 0 {
			t.Errorf("%s recommends nothing of %v", name, want)
		}
	}
}

func TestLocations(t *testing.T) {
	const base = "https://raw.githubusercontent.com/kubernetes/kops/master/channels/"
	for name, want := range map[string]string{
		"stable": base + "stable", "none": "", "https://example.com/c": "https://example.com/c", "file:///c": "file:///c", "/etc/channel": "/etc/channel",
	} {
		if got := versions.Location(name); got != want {
			t.Errorf("%s is at %q, want %q", name, got, want)
		}
	}
	if _, ok := versions.Embedded(base + "stable"); !ok {
		t.Error("the URL of stable is not known")
	}
	if _, ok := versions.Embedded("https://example.com/c"); ok {
		t.Error("a foreign channel is embedded")
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{
		"1.36.3": "1.36.3", "v1.36.0-rc.1": "1.36.0-rc.1", "https://dl.k8s.io/release/v1.35.4/": "1.35.4",
		"https://storage.example.com/ci/v1.37.0-alpha.1.5+0123abc": "1.37.0-alpha.1.5+0123abc",
	} {
		if got, err := versions.ParseVersion(text); err != nil || got.String() != want {
			t.Errorf("%s is %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "latest", "1.36", "https://dl.k8s.io/release/stable.txt"} {
		if got, err := versions.ParseVersion(text); err == nil {
			t.Errorf("%q is the version %s", text, got)
		}
	}
}

func TestBadChannelsAreRefused(t *testing.T) {
	for data, want := range map[string]string{
		"kind: Cluster": `the kind is "Cluster"`,
		"a: b: c":       "read channel",
		"kind: Channel\nspec: {kopsVersions: [{range: x}]}": `version range "x"`,
	} {
		if _, err := versions.Parse([]byte(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", data, err, want)
		}
	}
}

// TestAPublishedChannelIsRead reads a file in the format in which kOps publishes its channels:
// without a header, with fields of other versions, and with comments.
func TestAPublishedChannelIsRead(t *testing.T) {
	c, err := versions.Parse([]byte(`spec:
  images:
    # the newest last
    - name: ubuntu-os-cloud/ubuntu-2404-noble-amd64-v20260615
      providerID: gce
      architectureID: amd64
      kubernetesVersion: ">=1.32.0"
  cluster:
    kubernetesVersion: v1.5.8
    networking:
      kubenet: {}
  kubernetesVersions:
  - range: ">=1.35.0"
    recommendedVersion: 1.35.4
    requiredVersion: 1.35.0
  kopsVersions:
  - range: ">=1.36.0-alpha.1"
    recommendedVersion: "1.36.0"
    #requiredVersion: 1.36.0
    kubernetesVersion: 1.36.1
    later: {field: of later versions}
`))
	if err != nil {
		t.Fatal(err)
	}
	if v := c.NewClusterVersion("1.37.0"); v != "1.36.1" {
		t.Errorf("new clusters get %q", v)
	}
	if r, _ := c.Kubernetes("1.35.1"); r != "1.35.4" {
		t.Errorf("1.35.1 should be %q", r)
	}
	for _, wrong := range []string{"<html></html>", "spec: {}", "kind: Cluster\nspec: {}", "apiVersion: v1\nspec: {}"} {
		if _, err := versions.Parse([]byte(wrong)); err == nil {
			t.Errorf("%q is read as a channel", wrong)
		}
	}
}
