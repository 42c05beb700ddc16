package gcename_test

import (
	"testing"

	"kops.local/kops/internal/platform/gce/gcename"
)

func TestANameTellsItsObjectAndItsCluster(t *testing.T) {
	const short, long = "minimal-gce.example.com", "minimal-gce-with-a-very-very-very-very-very-long-name.example.com"
	for _, c := range []struct{ name, cluster, want string }{
		{"api-minimal-gce-example-com", short, "api"},
		{"api-us-test1-minimal-gce-with-a-very-very-very-very-very-96dqvi", long, "api-us-test1"},
		{"api-us-test1-minimal-gce-with-a-very-very-very-very-very-96dqvj", long, ""},
		{"api-us-test1-minimal-gce-with-a-very-very-very-very-96dqvi", long, ""}, // cut where nothing needs cutting
		{"minimal-gce-example-com", short, ""},
		{"-minimal-gce-example-com", short, ""},
		{"api-minimal-gce-example-com-two", short, ""},
		{"api-another-minimal-gce-example-com", short, "api-another"}, // or the object api of another-minimal-gce.example.com
		{"", short, ""},
	} {
		if got, ok := gcename.Part(c.name, c.cluster); got != c.want || ok != (c.want != "") {
			t.Errorf("%s in %s: got %q, %v; want %q", c.name, c.cluster, got, ok, c.want)
		}
	}
}
