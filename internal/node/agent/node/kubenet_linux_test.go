package node_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"kops.local/kops/api"
)

// A machine whose cluster's range has changed masquerades by the new range only.
func TestMasqueradingFollowsTheRange(t *testing.T) {
	if err := exec.Command("unshare", "--net", "iptables", "--table", "nat", "--list").Run(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("CANNOT RUN: a network of its own with iptables cannot be made here: ", err)
		}
		t.Skip("SKIPPED, NOTHING WAS TESTED: a network of its own with iptables cannot be made here: ", err)
	}
	dir := t.TempDir()
	script := func(name, cidr string) string {
		in := input()
		in.Config.UsesKubenet, in.Config.Networking = true, api.NetworkingSpec{NonMasqueradeCIDR: cidr}
		all, _ := texts(t, in)
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(all["/opt/kops/bin/cni-iptables-setup"]), 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	before, now := script("before", "100.64.0.0/10"), script("now", "10.0.0.0/8")
	out, err := exec.Command("unshare", "--net", "bash", "-ec", before+"; "+now+"; "+now+"; iptables --table nat --list-rules | grep IP-MASQ").CombinedOutput()
	const want = `-N IP-MASQ
-A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ
-A IP-MASQ -d 10.0.0.0/8 -j RETURN
-A IP-MASQ -j MASQUERADE
`
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
}
