package network

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"
)

// scene is a host between one of its machines, a machine of another cluster, and a
// neighbour in its LAN. Each is a network namespace.
type scene struct {
	*testing.T
	spaces map[string]netns.NsHandle
}

const (
	bridgeA, bridgeB = "kops-t-a", "kops-t-b"
	machineA         = "10.199.21.2"
	machineB         = "10.199.22.2"
	neighbour        = "192.0.2.2"
)

func newScene(t *testing.T) *scene {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("CANNOT RUN: only root can make network namespaces")
		}
		t.Skip("SKIPPED, NOTHING WAS TESTED: only root can make network namespaces")
	}
	for _, program := range []string{"ip", "iptables"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED, NOTHING WAS TESTED: there is no program %s; run tools/install", program)
		}
	}
	s := &scene{t, map[string]netns.NsHandle{}}
	names := []string{"host", "a", "b", "lan"}
	drop := func() {
		for _, n := range names {
			_ = exec.Command("ip", "netns", "del", "kops-t-"+n).Run() // it may not exist
		}
	}
	drop() // left by an interrupted test
	t.Cleanup(drop)
	for _, n := range names {
		s.run("ip netns add kops-t-" + n)
		ns, err := netns.GetFromName("kops-t-" + n)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ns.Close() })
		s.spaces[n] = ns
		s.runAll(n, "ip link set lo up")
	}
	for n, c := range map[string]struct{ at, own, gateway, bridge string }{
		"a": {"a", machineA, "10.199.21.1", bridgeA}, "b": {"b", machineB, "10.199.22.1", bridgeB}, "lan": {"lan", neighbour, "192.0.2.1", "lan-t"},
	} {
		s.runAll("host", "ip link add "+c.bridge+" type bridge", "ip addr add "+c.gateway+"/24 dev "+c.bridge, "ip link set "+c.bridge+" up",
			"ip link add v-"+n+" type veth peer name eth0 netns kops-t-"+n, "ip link set v-"+n+" master "+c.bridge+" up")
		s.runAll(n, "ip addr add "+c.own+"/24 dev eth0", "ip link set eth0 up", "ip route add default via "+c.gateway)
	}
	s.runAll("host", "sysctl -qw net.ipv4.ip_forward=1")
	return s
}

func (s *scene) run(commands ...string) {
	s.Helper()
	for _, c := range commands {
		words := strings.Fields(c)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			s.Fatalf("%s: %v: %s", c, err, out)
		}
	}
}

func (s *scene) runAll(n string, commands ...string) {
	s.Helper()
	for _, c := range commands {
		s.run("ip netns exec kops-t-" + n + " " + c)
	}
}

// inNamespace runs a function, and what it starts, in a namespace.
func (s *scene) inNamespace(n string, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread exits with the goroutine
		err := netns.Set(s.spaces[n])
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

func (s *scene) listen(n, address string) {
	s.Helper()
	if err := s.inNamespace(n, func() error {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		s.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte("hello")) // the client may be gone
				_ = c.Close()
			}
		}()
		return nil
	}); err != nil {
		s.Fatal(err)
	}
}

// reaches reports whether a server can be reached and its answer comes back.
func (s *scene) reaches(from, address string) bool {
	return s.inNamespace(from, func() error {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return err
		}
		defer c.Close() //nolint:errcheck // it was only read
		if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		_, err = fmt.Fscan(c, new(string))
		return err
	}) == nil
}

// TestTheHostOpensWhatAClusterNeeds, on a host that accepts everything by default and
// on one that drops everything.
func TestTheHostOpensWhatAClusterNeeds(t *testing.T) {
	for _, policy := range []string{"ACCEPT", "DROP"} {
		t.Run(policy, func(t *testing.T) {
			s := newScene(t)
			s.runAll("host", "iptables -P FORWARD "+policy, "iptables -P INPUT "+policy)
			a, b := netip.MustParsePrefix("10.199.21.0/24"), netip.MustParsePrefix("10.199.22.0/24")
			masquerade := func(on bool) {
				t.Helper()
				if err := s.inNamespace("host", func() error {
					// rules of an earlier version, and a rule that was lost in an interrupted run
					if on {
						for _, r := range formerRules(bridgeA, a) {
							if err := iptables(r, "-I"); err != nil {
								return err
							}
						}
						if err := iptables(machineRules(bridgeA, a)[4], "-A"); err != nil {
							return err
						}
					}
					if err := Masquerade(bridgeB, b, on); err != nil {
						return err
					}
					return Masquerade(bridgeA, a, on)
				}); err != nil {
					t.Fatal(err)
				}
			}
			masquerade(true)
			for n, ports := range map[string][]string{"host": {"22", "443", "3988", "3989"}, "a": {"10250", "30080"}, "b": {"10250"}, "lan": {"80"}} {
				for _, p := range ports {
					s.listen(n, ":"+p)
				}
			}
			for _, c := range []struct {
				from, to string
				want     bool
			}{
				{"a", "10.199.21.1:443", true}, {"a", "10.199.21.1:3988", true}, {"a", "10.199.21.1:3989", true}, {"a", neighbour + ":80", true},
				{"host", machineA + ":10250", true}, {"host", machineA + ":30080", true},
				{"a", "10.199.21.1:22", false}, {"a", "192.0.2.1:22", false},
				{"a", machineB + ":10250", false}, {"b", machineA + ":10250", false},
				{"lan", machineA + ":10250", false}, {"lan", machineA + ":30080", false},
			} {
				if got := s.reaches(c.from, c.to); got != c.want {
					t.Errorf("%s reaches %s: %t", c.from, c.to, got)
				}
			}
			masquerade(false)
			out, err := exec.Command("ip", "netns", "exec", "kops-t-host", "iptables-save").Output()
			if err != nil || strings.Contains(string(out), bridgeA) || strings.Contains(string(out), bridgeB) {
				t.Errorf("left is %s %v", out, err)
			}
		})
	}
}

// TestAnEnclosureIsClosed: machines reach the given ports of this host's addresses on
// their bridge, and nothing else; on hosts of either policy.
func TestAnEnclosureIsClosed(t *testing.T) {
	for _, policy := range []string{"ACCEPT", "DROP"} {
		t.Run(policy, func(t *testing.T) {
			s := newScene(t)
			s.runAll("host", "iptables -P FORWARD "+policy, "iptables -P INPUT "+policy, "ip addr add 169.254.169.254/32 dev "+bridgeA)
			enclose := func(on bool) {
				t.Helper()
				if err := s.inNamespace("host", func() error {
					return Enclose(bridgeA, netip.MustParseAddr("10.199.21.1"), []int{53, 443}, []int{53}, on)
				}); err != nil {
					t.Fatal(err)
				}
			}
			enclose(true)
			enclose(true)
			for n, ports := range map[string][]string{"host": {"22", "443"}, "a": {"10250"}, "b": {"10250"}, "lan": {"80"}} {
				for _, p := range ports {
					s.listen(n, ":"+p)
				}
			}
			for _, c := range []struct {
				from, to string
				want     bool
			}{
				{"a", "10.199.21.1:443", true}, {"a", "169.254.169.254:443", true}, {"host", machineA + ":10250", true},
				{"a", "10.199.21.1:22", false}, {"a", "192.0.2.1:443", false}, {"a", "10.199.22.1:443", false},
				{"host", "10.199.21.1:443", policy == "ACCEPT"}, {"b", "10.199.21.1:443", false},
				{"a", neighbour + ":80", false}, {"a", machineB + ":10250", false}, {"b", machineA + ":10250", false}, {"lan", machineA + ":10250", false},
			} {
				if got := s.reaches(c.from, c.to); got != c.want {
					t.Errorf("%s reaches %s: %t", c.from, c.to, got)
				}
			}
			// Above, the host's root connects; no other user may reach its machines.
			other := exec.Command("ip", "netns", "exec", "kops-t-host", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "timeout", "1", "bash", "-c", "exec 3<> /dev/tcp/10.199.21.1/443")
			if out, err := other.CombinedOutput(); err == nil {
				t.Errorf("another user of the host reaches it: %s", out)
			}
			enclose(false)
			out, err := exec.Command("ip", "netns", "exec", "kops-t-host", "iptables-save").Output()
			if err != nil || strings.Contains(string(out), bridgeA) {
				t.Errorf("left is %s %v", out, err)
			}
		})
	}
}
