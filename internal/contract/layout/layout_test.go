package layout_test

import (
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/layout"
)

func TestGroupFolder(t *testing.T) {
	for role, want := range map[api.InstanceGroupRole]string{
		api.RoleControlPlane: "igconfig/control-plane/a/", api.RoleAPIServer: "igconfig/apiserver/a/",
		api.RoleNode: "igconfig/node/a/", api.RoleBastion: "igconfig/bastion/a/",
	} {
		if got := layout.GroupFolder(string(role), "a"); got != want {
			t.Errorf("files of a group of role %s are in %s, and not in %s", role, got, want)
		}
	}
}

// A file that is owned is deleted by the update that no longer wants it; a file that is not known
// prevents the deletion of its cluster.
func TestIsOwned(t *testing.T) {
	for key, want := range map[string]struct{ owned, known bool }{
		layout.Config:                         {false, true},
		layout.Groups + "nodes":               {false, true},
		layout.Additional:                     {false, true},
		layout.Completed:                      {true, true},
		layout.Version:                        {true, true},
		layout.Channel:                        {true, true},
		layout.Healthcheck:                    {true, true},
		layout.EtcdManifest("main", "cp"):     {true, true},
		layout.NodeConfig("Node", "nodes"):    {true, true},
		layout.UserData("Node", "nodes"):      {true, true},
		layout.EtcdBackups("main") + "/x":     {false, true},
		layout.Hosts + "m":                    {false, true},
		layout.MachineKey("m"):                {true, true},
		layout.PKI + "/" + layout.Keyset("a"): {false, true},
		layout.Secrets + "/a":                 {false, true},
		layout.OpenIDConfiguration:            {true, false},
		layout.WebKeys:                        {true, false},
		"notes.txt":                           {false, false},
	} {
		if owned, known := layout.IsOwned(key), layout.IsKnown(key); owned != want.owned || known != want.known {
			t.Errorf("%s: owned %t, known %t", key, owned, known)
		}
	}
}

func TestKeysetName(t *testing.T) {
	if name, ok := layout.KeysetName(layout.Keyset("kubernetes-ca")); !ok || name != "kubernetes-ca" {
		t.Errorf("got %q, %t", name, ok)
	}
	for _, key := range []string{"private/a/b.key", "issued/a/keyset.yaml", "a"} {
		if name, ok := layout.KeysetName(key); ok {
			t.Errorf("%s is the keyset %s", key, name)
		}
	}
}

func TestPublicURL(t *testing.T) {
	for _, c := range []struct {
		store string
		at    layout.Servers
		want  string
	}{
		{"s3://bucket/a/b/", layout.Servers{}, "https://bucket.s3.us-east-1.amazonaws.com/a/b"},
		{"s3://bucket/a", layout.Servers{IPv6: true}, "https://bucket.s3.dualstack.us-east-1.amazonaws.com/a"},
		{"s3://bucket/a/b", layout.Servers{Endpoint: "s3.example.com"}, "https://s3.example.com/bucket/a/b"},
		{"s3://bucket.with.dots/a", layout.Servers{Endpoint: "https://s3.example.com:9000/", IPv6: true}, "https://s3.example.com:9000/bucket.with.dots/a"},
		{"s3://bucket/a", layout.Servers{Endpoint: "http://s3.example.com"}, "https://s3.example.com/bucket/a"},
		{"gs://bucket/a", layout.Servers{Endpoint: "https://s3.example.com"}, "https://storage.googleapis.com/bucket/a"},
		{"file:///a", layout.Servers{Endpoint: "https://s3.example.com"}, ""}, {"", layout.Servers{}, ""},
	} {
		c.at.Region = "us-east-1"
		if got, ok := layout.PublicURL(c.store, c.at); got != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q %v", c.store, got, ok)
		}
	}
}

func TestStoreURL(t *testing.T) {
	for address, want := range map[string]string{
		"https://files.s3.us-east-1.amazonaws.com/kops/": "s3://files/kops", "https://my.files.s3.dualstack.eu-west-1.amazonaws.com": "s3://my.files",
		"https://s3.amazonaws.com/files/kops": "s3://files/kops", "https://s3-us-west-2.amazonaws.com/files": "s3://files",
		"https://files.s3.cn-north-1.amazonaws.com.cn/a": "s3://files/a", "https://files.s3.amazonaws.com/a/b": "s3://files/a/b",
		"https://storage.googleapis.com/files/a": "gs://files/a", "https://my.files.storage.googleapis.com/a/": "gs://my.files/a", "https://minio.example.com:9000/files/a": "s3://files/a",
		"s3://files/a": "s3://files/a", "https://files.example.com/kops": "", "https://amazonaws.com/x": "",
	} {
		got, ok := layout.StoreURL(address, "minio.example.com:9000")
		if got != want || ok != (want != "") {
			t.Errorf("%s is %q, and not %q", address, got, want)
		}
	}
}
