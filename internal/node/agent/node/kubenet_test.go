package node_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"text/template"
)

// The template is what containerd generates the pod network from, once it knows the node's range.
func TestKubenetGivesPodsANetwork(t *testing.T) {
	in := input()
	in.Host.Traits, in.Config.UsesKubenet = traits("aws"), true
	all, _ := texts(t, in)
	const file = "/etc/containerd/config-cni.template"
	if !strings.Contains(all["/etc/containerd/config.toml"], "[plugins.\"io.containerd.cri.v1.runtime\".cni]\nconf_template = \""+file+"\"") {
		t.Errorf("containerd does not know of the template:\n%s", all["/etc/containerd/config.toml"])
	}
	parsed, err := template.New("").Parse(all[file])
	if err != nil {
		t.Fatal(err)
	}
	for _, ranges := range [][]string{{"100.96.1.0/24"}, {"100.96.1.0/24", "fd00::/64"}} {
		var out bytes.Buffer
		if err := parsed.Execute(&out, struct{ PodCIDRRanges, Routes []string }{ranges, []string{"0.0.0.0/0", "::/0"}}); err != nil {
			t.Fatal(err)
		}
		var got struct {
			CNIVersion string
			Plugins    []struct {
				Type string
				IPAM struct {
					Ranges [][]struct{ Subnet string }
					Routes []struct{ Dst string }
				}
			}
		}
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.CNIVersion != "1.0.0" || got.Plugins[0].Type != "ptp" || got.Plugins[1].Type != "portmap" ||
			len(got.Plugins[0].IPAM.Ranges) != len(ranges) || got.Plugins[0].IPAM.Ranges[0][0].Subnet != ranges[0] || got.Plugins[0].IPAM.Routes[1].Dst != "::/0" {
			t.Errorf("%v: %v\n%s", ranges, err, &out)
		}
	}
	in.Host.Traits = traits("local")
	if all, _ := texts(t, in); all[file] != "" || strings.Contains(all["/etc/containerd/config.toml"], "conf_template") {
		t.Error("a machine of the local cloud has two makers of its network")
	}
}
