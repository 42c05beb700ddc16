package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/node/host"
)

// asAnImage makes the machine's system look like Flatcar: containerd is in /usr, which
// is read-only, and os-release identifies it as Flatcar.
const asAnImage = `set -e
cp ` + markerFile + `/image/* /usr/bin/
cat > /usr/lib/systemd/system/containerd.service << 'END'
[Unit]
Description=containerd container runtime
After=network.target

[Service]
Delegate=yes
Environment=CONTAINERD_CONFIG=/usr/share/containerd/config.toml
ExecStart=/usr/bin/containerd --config ${CONTAINERD_CONFIG}
KillMode=process
Restart=always
Type=notify
OOMScoreAdjust=0

[Install]
WantedBy=multi-user.target
END
mkdir -p /usr/share/containerd
echo 'version = 2' > /usr/share/containerd/config.toml
rm /usr/lib/os-release
printf 'NAME="Flatcar Container Linux by Kinvolk"\nID=flatcar\nID_LIKE=coreos\nVERSION_ID=4230.2.3\n' > /usr/lib/os-release
ln -sf ../usr/lib/os-release /etc/os-release
mount --bind /usr /usr
mount -o remount,bind,ro /usr
systemctl daemon-reload
systemctl enable --now containerd.service
`

// TestAWorkerWhoseSystemIsAnImage runs nodeup on a machine with a read-only /usr.
func TestAWorkerWhoseSystemIsAnImage(t *testing.T) {
	g := joiner(t)
	files, kubernetes := bundle(t)
	nodes := g.control(files, kubernetes)
	g.ok(os.MkdirAll(filepath.Join(g.tools, "image"), 0o755))
	for base, data := range files { // they are in the image, and nowhere else
		switch {
		case strings.HasPrefix(base, "runc."):
			g.ok(os.WriteFile(filepath.Join(g.tools, "image", "runc"), data, 0o755))
		case strings.HasPrefix(base, "containerd-"):
			packed := filepath.Join(t.TempDir(), base)
			g.ok(os.WriteFile(packed, data, 0o644))
			_, err := host.Run(t.Context(), "tar", "-xzf", packed, "-C", filepath.Join(g.tools, "image"), "--strip-components=1")
			g.ok(err)
		default:
			continue
		}
		delete(files, base)
	}
	inside := func(command string) string {
		t.Helper()
		out, err := g.host.RunInside(t.Context(), name, "sh", "-c", command)
		if err != nil {
			t.Logf("%s: %v", command, err)
		}
		return strings.TrimSpace(string(out))
	}
	inside(asAnImage)
	nodeup := markerFile + "/nodeup --conf=" + markerFile + "/kube_env.yaml"
	if got := inside("touch /usr/x 2>/dev/null || echo read-only; systemctl is-active containerd"); got != "read-only\nactive" {
		t.Fatalf("the machine is no image: %s", got)
	}
	t.Log(inside(nodeup + " --install-systemd-unit 2>&1"))
	g.report()
	inside("while systemctl show -p ActiveState kops-configuration | grep activating; do sleep 0.1; done")
	t.Log(inside(nodeup + " --retries=0 2>&1"))
	for _, p := range g.report().Phases {
		if p.Steps > 0 {
			t.Errorf("the second run has changed something in the phase %s", p.Name)
		}
	}
	nodes.state.Store(int32(controller.NodeReady))
	for _, step := range [][2]string{
		{"systemctl is-active containerd kubelet kubernetes-iptables-setup logrotate.timer", "active\nactive\nactive\nactive"},
		{"tr '\\0' ' ' < /proc/$(systemctl show --value -p MainPID containerd)/cmdline | cut -d ' ' -f 1-3", "/usr/bin/containerd --config /etc/containerd/config.toml"},
		{"readlink /proc/$(systemctl show --value -p MainPID kubelet)/exe", "/opt/kubernetes/bin/kubelet"},
		{"mkdir -p /mnt/r; mount --bind / /mnt/r; ctr run --rm --rootfs /mnt/r one /bin/echo from a container 2>/dev/null", "from a container"},
		{"for i in $(seq 50); do curl -sk https://127.0.0.1:10250/healthz && break; sleep 0.2; done", "Unauthorized"},
		{"systemctl start logrotate.service; systemctl show --value -p Result logrotate.service", "success"},
		{"systemctl start kops-renewal.service; while systemctl is-active -q kops-renewal.service; do sleep 0.1; done; systemctl show --value -p Result kops-renewal.service", "success"},
		{"grep -c '^kops_certificate_end_timestamp_seconds{' /var/lib/kops/metrics/nodeup.prom; grep '^kops_renewal_failed' /var/lib/kops/metrics/nodeup.prom", "3\nkops_renewal_failed 0"},
		{"ls /usr/local/bin /usr/libexec/kubernetes 2>/dev/null | grep -c kube", "0"},
	} {
		if got := inside(step[0]); got != step[1] {
			t.Errorf("%s: %q, want %q", step[0], got, step[1])
		}
	}
}
