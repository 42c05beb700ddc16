package agent_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
	"kops.local/kops/internal/agent"
	"kops.local/kops/internal/agent/node"
	"kops.local/kops/internal/model"
)

// probe looks at a machine with these files.
func probe(t *testing.T, files map[string]string) agent.Probe {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		at := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	addresses := func() ([]net.Addr, error) {
		var out []net.Addr
		for _, a := range []string{"127.0.0.1/8", "10.0.0.9/24", "fe80::1/64", "10.0.0.10/24"} {
			ip, n, err := net.ParseCIDR(a)
			if err != nil {
				return nil, err
			}
			out = append(out, &net.IPNet{IP: ip, Mask: n.Mask})
		}
		return out, nil
	}
	return agent.Probe{Root: root, Arch: "arm64", HTTP: http.DefaultClient, Addresses: addresses, Hostname: func() (string, error) { return "m1", nil },
		Command: func(context.Context, string, ...string) ([]byte, error) {
			return []byte("containerd github.com/containerd/containerd 1.6.20~ds1 abc\n"), nil
		}}
}

const ubuntu = "NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n"

func TestWhatMachineThisIs(t *testing.T) {
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.URL.Path, "/latest/meta-data/")
		answers := map[string]string{"/latest/api/token": "secret", "instance-id": "i-1", "local-hostname": "ip-10-0-0-9.internal", "placement/availability-zone": "eu-west-1a",
			"local-ipv4": "10.0.0.9", "autoscaling/target-lifecycle-state": "Warmed:Stopped"}
		text, ok := answers[key]
		if !ok || key[0] != '/' && r.Header.Get("X-Aws-Ec2-Metadata-Token") != "secret" || key[0] == '/' && r.Method != http.MethodPut {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, text) // the test would fail
	}))
	defer metadata.Close()
	aws := &model.BootConfig{CloudProvider: "aws"}
	base := node.Host{Distro: "ubuntu", Release: "24.04", Like: "debian", Arch: "arm64", Name: "m1", NodeName: "m1", Names: []string{"m1", "10.0.0.10", "10.0.0.9"},
		Addresses: []string{"10.0.0.10", "10.0.0.9"}, CgroupV1: true}
	yes := true
	for _, c := range []struct {
		name   string
		files  map[string]string
		boot   *model.BootConfig
		config model.NodeupConfig
		want   func(*node.Host)
	}{
		{"a plain machine", nil, &model.BootConfig{}, model.NodeupConfig{}, func(*node.Host) {}},
		{"a container", map[string]string{"run/systemd/container": "systemd-nspawn"}, &model.BootConfig{}, model.NodeupConfig{}, func(h *node.Host) { h.Contained = true }},
		{"new control groups", map[string]string{"sys/fs/cgroup/cgroup.controllers": ""}, &model.BootConfig{}, model.NodeupConfig{}, func(h *node.Host) { h.CgroupV1 = false }},
		{"a resolver of its own", map[string]string{"etc/resolv.conf": "nameserver 127.0.0.53\n", "run/systemd/resolve/resolv.conf": ""}, &model.BootConfig{}, model.NodeupConfig{},
			func(h *node.Host) { h.Resolved = true }},
		{"somebody logs in", map[string]string{"etc/passwd": "root:x:0:0::/root:/bin/sh\nubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n"}, &model.BootConfig{}, model.NodeupConfig{},
			func(h *node.Host) { h.Admin = node.Account{Home: "/home/ubuntu", ID: 1000} }},
		{"the image's containerd", nil, &model.BootConfig{}, model.NodeupConfig{ContainerdConfig: &api.ContainerdConfig{SkipInstall: true}},
			func(h *node.Host) { h.Containerd = "1.6.20~ds1" }},
		{"another distribution", map[string]string{"etc/os-release": "ID=\"amzn\"\nVERSION_ID=\"2023\"\nID_LIKE=\"fedora\"\n"}, &model.BootConfig{}, model.NodeupConfig{},
			func(h *node.Host) { h.Distro, h.Release, h.Like = "amzn", "2023", "rhel" }},
		{"AWS", nil, aws, model.NodeupConfig{}, func(h *node.Host) {
			h.NodeName, h.OverrideName, h.ProviderID, h.Names = "i-1", true, "aws:///eu-west-1a/i-1", []string{"10.0.0.9", "i-1", "ip-10-0-0-9.internal"}
		}},
		{"AWS with names made of addresses, being warmed", nil, aws, model.NodeupConfig{UseIPBasedNodeNames: &yes, WarmPoolImages: []string{"i"}}, func(h *node.Host) {
			h.NodeName, h.OverrideName, h.ProviderID, h.Names = "ip-10-0-0-9.internal", true, "aws:///eu-west-1a/i-1", []string{"10.0.0.9", "i-1", "ip-10-0-0-9.internal"}
			h.Warming = true
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{"etc/os-release": ubuntu}
			for k, v := range c.files {
				files[k] = v
			}
			p := probe(t, files)
			p.Metadata = metadata.URL
			got, err := p.Detect(t.Context(), c.boot, &c.config)
			if err != nil {
				t.Fatal(err)
			}
			want := base
			c.want(&want)
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestAMachineThatCannotBeIdentified(t *testing.T) {
	metadata := httptest.NewServer(http.NotFoundHandler())
	defer metadata.Close()
	p := probe(t, map[string]string{"etc/os-release": ubuntu})
	p.Metadata = metadata.URL
	if _, err := p.Detect(t.Context(), &model.BootConfig{CloudProvider: "aws"}, &model.NodeupConfig{}); err == nil || !strings.Contains(err.Error(), "ask the cloud who this machine is") {
		t.Errorf("error %v", err)
	}
	if _, err := probe(t, nil).Detect(t.Context(), &model.BootConfig{}, &model.NodeupConfig{}); err == nil || !strings.Contains(err.Error(), "which distribution") {
		t.Errorf("error %v", err)
	}
}
