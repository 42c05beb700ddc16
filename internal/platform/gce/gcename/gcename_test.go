package gcename_test

import (
	"testing"

	"kops.local/kops/internal/platform/gce/gcename"
)

func TestNamesOnGCE(t *testing.T) {
	const short, long = "minimal-gce.example.com", "minimal-gce-with-a-very-very-very-very-very-long-name.example.com"
	for _, c := range []struct{ got, want string }{
		{gcename.Suffixed("api", short), "api-minimal-gce-example-com"},
		{gcename.Suffixed("api-us-test1", long), "api-us-test1-minimal-gce-with-a-very-very-very-very-very-96dqvi"},
		{gcename.Network("a.example.com"), "a-example-com"},
		{gcename.Tag("node", short), "minimal-gce-example-com-k8s-io-role-node"},
		{gcename.Tag("control-plane", long), "minimal-gce-with-a-very-very-v-96dqvi-k8s-io-role-control-plane"},
		{gcename.Group("nodes", "us-test1-a", short), "a-nodes-minimal-gce-example-com"},
		{gcename.Group("nodes", "us-test1-a", long), "a-nodes-minimal-gce-with-a-very-very-very-very-very-long-qk78uj"},
		{gcename.TemplatePrefix("nodes", short), "nodes-minimal-gce-example-com-"},
		{gcename.TemplatePrefix("master-us-test1-a", long), "master-us-test1-a-minimal-ivl9ll-"},
		{gcename.Account("control-plane", short), "control-plane-minimal-g-fu1mg6"},
		{gcename.Account("node", "minimal.example.com"), "node-minimal-example-com"},
		{gcename.AccountEmail("node-a", "p"), "node-a@p.iam.gserviceaccount.com"},
		{gcename.AccountEmail("node-a", "example.com:p"), "node-a@p.example.com.iam.gserviceaccount.com"},
		{gcename.EtcdDisk("a", "main", short), "a-etcd-main-minimal-gce-example-com"},
		{gcename.EtcdDisk("1", "main", short), "d1-etcd-main-minimal-gce-example-com"},
		{gcename.EncodeLabel("a/a"), "a-2fa"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

func TestNamesFitHoweverLongTheirPartsAre(t *testing.T) {
	long := "x"
	for range 7 {
		long += long
	}
	for _, object := range []string{"api", long[:53], long[:54], long[:55], long[:62], long} {
		for _, name := range []string{gcename.Suffixed(object, long+".example.com"), gcename.Group(object, "us-test1-a", long),
			gcename.EtcdDisk("1"+object, "main", long)} {
			if len(name) > 63 {
				t.Errorf("%s has %d characters", name, len(name))
			}
		}
	}
}

func TestLabelValuesAreReadAsTheyWereWritten(t *testing.T) {
	for _, text := range []string{"", "a/a", "us-east1-a/us-east1-a", "ABC", "é+%"} {
		if got, err := gcename.DecodeLabel(gcename.EncodeLabel(text)); got != text || err != nil {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
	if _, err := gcename.DecodeLabel("a-zz"); err == nil {
		t.Error("a value that nobody wrote is read")
	}
}

func TestNamesAreParsed(t *testing.T) {
	const short, long = "minimal-gce.example.com", "minimal-gce-with-a-very-very-very-very-very-long-name.example.com"
	for _, c := range []struct{ name, cluster, want string }{
		{"api-minimal-gce-example-com", short, "api"},
		{"api-us-test1-minimal-gce-with-a-very-very-very-very-very-96dqvi", long, "api-us-test1"},
		{"api-us-test1-minimal-gce-with-a-very-very-very-very-very-96dqvj", long, ""},
		{"api-us-test1-minimal-gce-with-a-very-very-very-very-96dqvi", long, ""}, // truncated where that is not necessary
		{"minimal-gce-example-com", short, ""},
		{"api-minimal-gce-example-com-two", short, ""},
		{"api-another-minimal-gce-example-com", short, "api-another"}, // or the object api of another-minimal-gce.example.com
		{"", short, ""},
	} {
		if got, ok := gcename.Part(c.name, c.cluster); got != c.want || ok != (c.want != "") {
			t.Errorf("%s in %s: got %q, %v; want %q", c.name, c.cluster, got, ok, c.want)
		}
	}
}
