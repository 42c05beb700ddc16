package network

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestEveryRuleBearsTheNameOfTheBridge(t *testing.T) {
	for _, r := range machineRules("kops-abc", netip.MustParsePrefix("10.77.0.0/24")) {
		if !slices.Contains(r.args, "kops-abc") {
			t.Errorf("%v does not", r)
		}
	}
}

// put replaces a program of the host with a shell script that comes first in PATH.
func put(t *testing.T, dir, program, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestFirewalldTrustsTheBridge: if firewalld runs, the bridge is added to it; otherwise it is not
// called.
func TestFirewalldTrustsTheBridge(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	cidr := netip.MustParsePrefix("10.77.0.0/24")
	put(t, dir, "iptables", `case $* in *"-i kops-abc -d 10.77.0.1 -m comment"*|*"FORWARD -o kops-abc -m comment --comment kops-abc -j ACCEPT"*) exit 1;; esac
exit 0
`) // all rules exist, and none of earlier versions
	state := func(runs, trusted bool) {
		t.Helper()
		set := func(name string, on bool) {
			if err := os.RemoveAll(filepath.Join(dir, name)); err == nil && on {
				err = os.WriteFile(filepath.Join(dir, name), nil, 0o600)
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		set("runs", runs)
		set("trusted", trusted)
	}
	put(t, dir, "firewall-cmd", `cd "$(dirname "$0")"
case $* in
*--state) test -e runs;;
"--zone=trusted --query-interface=kops-abc") test -e trusted;;
"--zone=trusted --change-interface=kops-abc") touch trusted;;
"--zone=trusted --remove-interface=kops-abc") rm trusted;;
*) echo "what is $*?" >&2; exit 1;;
esac
`)
	for _, c := range []struct {
		name                    string
		runs, trusted, on, want bool
	}{
		{"on, and firewalld runs", true, false, true, true},
		{"on again", true, true, true, true},
		{"off", true, true, false, false},
		{"off again", true, false, false, false},
		{"on, and firewalld does not run", false, false, true, false},
	} {
		state(c.runs, c.trusted)
		if before := Masquerades("kops-abc", cidr); before != (!c.runs || c.trusted) {
			t.Errorf("%s: before, it is said to be on: %t", c.name, before)
		}
		if err := Masquerade("kops-abc", cidr, c.on); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "trusted")); (err == nil) != c.want {
			t.Errorf("%s: the bridge is trusted: %t", c.name, err == nil)
		}
	}
}
