package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kops.local/kops/internal/platform/local/ground"
	"kops.local/kops/internal/platform/local/image"
	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/network"
	"kops.local/kops/internal/platform/local/site"
)

const (
	// inside is set when this program runs within the machine.
	inside = "KOPS_TEST_INSIDE"
	// markerFile is the path at which the machine sees the folder with this program.
	markerFile = "/mnt/test"
	program    = "node.test"
	name       = "machine-1"
	sysctls    = "/proc/sys"
)

// guest is a machine that is deleted when the test ends.
type guest struct {
	*testing.T
	host machine.Host
	// tools is the folder that is visible in the machine.
	tools string
}

// boot starts a machine that sees this program, or skips the test if none can be created.
func boot(t *testing.T) *guest {
	t.Helper()
	localtest.Require(t)
	g := &guest{T: t}
	cache, err := os.UserCacheDir()
	g.ok(err)
	root, err := image.Recipe{}.Ensure(t.Context(), filepath.Join(cache, "kops", "local"), t.Output())
	g.ok(err)
	dir := localtest.Workplace(t, "node")
	s := site.Site{Root: filepath.Join(dir, "local"), Cluster: "node.k8s.local"}
	g.host, err = machine.NewHost(s)
	g.ok(err)
	g.clear() // leftovers of an interrupted or failed run
	was := ground.ReadSysctls(sysctls)
	t.Cleanup(func() {
		g.clear()
		g.ok(ground.RestoreSysctls(sysctls, was))
	})

	g.tools = filepath.Join(dir, "tools")
	g.ok(errors.Join(os.MkdirAll(g.tools, 0o755), os.MkdirAll(s.Path(site.Registry), 0o755)))
	self, err := os.Executable()
	g.ok(err)
	copyFile(t, self, filepath.Join(g.tools, program))
	cidr, err := network.Check("10.199.77.0/24")
	g.ok(err)
	g.ok(network.Ensure(s.Bridge(), network.Gateway(cidr)))
	address, err := network.FreeAddress(cidr, func(netip.Addr) bool { return false })
	g.ok(err)
	g.ok(g.host.Create(t.Context(), machine.Spec{Name: name, Image: root, Address: address, Gateway: network.Gateway(cidr).Addr(),
		Folders: []machine.Folder{{Host: g.tools, Path: markerFile, ReadOnly: true}}}, time.Now()))
	g.waitUntilUp()
	return g
}

// clear deletes the machine and its network.
func (g *guest) clear() {
	g.Helper()
	ctx := context.Background() // the test's context has ended
	g.ok(g.host.Delete(ctx, name))
	g.ok(g.host.RetireSlice(ctx))
	g.ok(network.Remove(g.host.Bridge()))
}

func (g *guest) ok(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

// waitUntilUp waits until the machine's systemd has started everything.
func (g *guest) waitUntilUp() {
	g.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		out, err := g.host.RunInside(g.Context(), name, "systemctl", "is-system-running")
		if state := string(bytes.TrimSpace(out)); state == "running" || state == "degraded" {
			return
		}
		if time.Now().After(deadline) {
			log, _ := g.host.Log(name) // if it is missing, the failure only has less detail
			g.Fatalf("the machine is not up after 30 s: %s %v\n%s", out, err, log)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
