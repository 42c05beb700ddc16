package routes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// plugins returns the folder of the reference CNI plugins that tools/kubernetes has built.
func plugins(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	built, err := filepath.Glob(filepath.Join(cache, "kops", "build", "cni-plugins-v*-"+runtime.GOARCH, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range built {
		if _, err := os.Stat(filepath.Join(dir, "bridge")); err == nil {
			return dir
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("no CNI plugins; build them with `go run ./tools/kubernetes`")
	}
	t.Skip("SKIPPED, NOT TESTED: no CNI plugins; build them with `go run ./tools/kubernetes`")
	return ""
}

// pod is a network namespace, and the thread that is in it.
type pod struct {
	netns string
	do    chan func()
}

func newPod(t *testing.T) pod {
	t.Helper()
	p := pod{do: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the namespace ends with the thread
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		p.netns = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), syscall.Gettid())
		made <- err
		for f := range p.do {
			f()
		}
	}()
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(p.do) })
	return p
}

// run runs a function in the pod.
func (p pod) run(f func() error) error {
	done := make(chan error)
	p.do <- func() { done <- f() }
	return <-done
}

// attach does for a pod what a container runtime does: it calls each plugin of the
// configuration with the result of the previous one.
func attach(t *testing.T, conflist []byte, dir, data, id string, p pod) net.IP {
	t.Helper()
	var c struct {
		CNIVersion, Name string
		Plugins          []map[string]any
	}
	if err := json.Unmarshal(conflist, &c); err != nil {
		t.Fatal(err)
	}
	var result map[string]any
	for _, plugin := range c.Plugins {
		plugin["cniVersion"], plugin["name"] = c.CNIVersion, c.Name
		if ipam, ok := plugin["ipam"].(map[string]any); ok {
			ipam["dataDir"] = data
		}
		if result != nil {
			plugin["prevResult"] = result
		}
		stdin, err := json.Marshal(plugin)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(filepath.Join(dir, fmt.Sprint(plugin["type"])))
		cmd.Stdin, cmd.Env = bytes.NewReader(stdin), append(os.Environ(), "CNI_COMMAND=ADD", "CNI_CONTAINERID="+id, "CNI_NETNS="+p.netns, "CNI_IFNAME=eth0", "CNI_PATH="+dir)
		out, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(out, &result)
		}
		if err != nil {
			t.Fatalf("%v: %v\n%s", plugin["type"], err, out)
		}
	}
	var got net.IP
	err := p.run(func() error {
		l, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		addrs, err := netlink.AddrList(l, netlink.FAMILY_V4)
		if err == nil && len(addrs) != 1 {
			err = fmt.Errorf("the pod has the addresses %v", addrs)
		}
		if err == nil {
			got = addrs[0].IP
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestAnotherRangeMovesTheBridge gives a node with pods another range, as happens when it
// registers again.
func TestAnotherRangeMovesTheBridge(t *testing.T) {
	dir, data := plugins(t), t.TempDir()
	inNamespace(t)
	for i, c := range []struct{ ranges, pod string }{{"100.96.1.0/24", "100.96.1.2"}, {"100.96.5.0/24", "100.96.5.2"}} {
		conflist, err := Conflist([]netip.Prefix{netip.MustParsePrefix(c.ranges)})
		if err != nil {
			t.Fatal(err)
		}
		p := newPod(t)
		if got := attach(t, conflist, dir, data, fmt.Sprint("pod", i), p); got.String() != c.pod {
			t.Errorf("in %s the pod has the address %s", c.ranges, got)
		}
		l, err := netlink.LinkByName(bridge)
		if err != nil {
			t.Fatal(err)
		}
		addrs, err := netlink.AddrList(l, netlink.FAMILY_V4)
		if err != nil || len(addrs) != 1 || !netip.MustParsePrefix(c.ranges).Contains(netip.MustParseAddr(addrs[0].IP.String())) {
			t.Errorf("in %s the bridge has the addresses %v: %v", c.ranges, addrs, err)
		}
	}
}

// TestThePluginsTakeTheConfiguration connects two pods to a machine's network.
func TestThePluginsTakeTheConfiguration(t *testing.T) {
	dir, data := plugins(t), t.TempDir()
	inNamespace(t)
	conflist, err := Conflist([]netip.Prefix{netip.MustParsePrefix("100.96.1.0/24")})
	if err != nil {
		t.Fatal(err)
	}
	a, b := newPod(t), newPod(t)
	addressA, addressB := attach(t, conflist, dir, data, "a", a), attach(t, conflist, dir, data, "b", b)
	if addressA.String() != "100.96.1.2" || addressB.String() != "100.96.1.3" {
		t.Errorf("the pods have the addresses %s and %s", addressA, addressB)
	}
	seen := make(chan string, 3)
	var l net.Listener
	if err := a.run(func() error { // a socket stays in the namespace in which it was created
		l, err = net.Listen("tcp", addressA.String()+":0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it is no longer needed
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			seen <- host
			_ = c.Close()
		}
	}()
	dial := func() error {
		c, err := (&net.Dialer{Timeout: 5 * time.Second}).Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		_, err = io.ReadAll(c)
		return err
	}
	for _, from := range []struct {
		what    string
		dial    func() error
		address string
	}{
		{"the other pod", func() error { return b.run(dial) }, "100.96.1.3"},
		{"the machine", dial, "100.96.1.1"},
	} {
		if err := from.dial(); err != nil {
			t.Errorf("from %s: %v", from.what, err)
		} else if got := <-seen; got != from.address {
			t.Errorf("%s is seen as %s, not %s", from.what, got, from.address)
		}
	}
	if err := b.run(func() error { // the default route
		r, err := netlink.RouteGet(net.IPv4(192, 0, 2, 1))
		if err == nil && (len(r) != 1 || r[0].Gw.String() != "100.96.1.1") {
			err = fmt.Errorf("other addresses are reached by %v", r)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
