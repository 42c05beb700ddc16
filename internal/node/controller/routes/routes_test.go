package routes

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func node(name string, ranges []string, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: ranges}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeExternalIP, Address: "198.51.100.1"}}
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

func route(pods, via string) Route {
	return Route{netip.MustParsePrefix(pods), netip.MustParseAddr(via)}
}

func TestRoutesLeadToTheOtherNodes(t *testing.T) {
	leaving := node("leaving", []string{"100.96.9.0/24"}, "10.0.0.9")
	leaving.DeletionTimestamp = &metav1.Time{}
	old := node("old", nil, "10.0.0.4")
	old.Spec.PodCIDR = "100.96.4.0/24"
	nodes := []*corev1.Node{
		node("self", []string{"100.96.0.0/24", "fd00:1::/64"}, "10.0.0.1", "fd00::1"),
		node("b", []string{"100.96.1.0/24", "fd00:2::/64"}, "10.0.0.2", "fd00::2"),
		node("c", []string{"100.96.2.7/24"}, "10.0.0.3"),
		old, leaving,
		node("no range", nil, "10.0.0.5"),
		node("no address", []string{"100.96.5.0/24"}),
		node("other family", []string{"fd00:6::/64"}, "10.0.0.6"),
		node("overlaps", []string{"100.96.0.128/25"}, "10.0.0.7"),
		node("twice", []string{"100.96.1.0/24"}, "10.0.0.8"),
		node("nonsense", []string{"hello"}, "10.0.0.10"),
	}
	got := cluster().Desired(nodes, "self")
	want := []Route{route("100.96.1.0/24", "10.0.0.2"), route("100.96.2.0/24", "10.0.0.3"), route("100.96.4.0/24", "10.0.0.4"), route("fd00:2::/64", "fd00::2")}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	slices.Reverse(nodes)
	if again := cluster().Desired(nodes, "self"); !slices.Equal(again, want) {
		t.Errorf("the order of nodes matters: %v", again)
	}
}

// table is a routing table.
type table struct {
	routes map[netip.Prefix]netip.Addr
	fail   netip.Prefix
}

func (t *table) Routes() ([]Route, error) {
	var out []Route
	for p, a := range t.routes {
		out = append(out, Route{p, a})
	}
	return out, nil
}

func (t *table) Set(r Route) error {
	if r.Pods == t.fail {
		return errors.New("network is unreachable")
	}
	t.routes[r.Pods] = r.Via
	return nil
}

func (t *table) Remove(r Route) error { delete(t.routes, r.Pods); return nil }

// cluster returns the network of these tests' nodes.
func cluster() Network {
	return Network{Pods: []netip.Prefix{netip.MustParsePrefix("100.96.0.0/11"), netip.MustParsePrefix("fd00::/16")}, Bits: 24, Bits6: 64}
}

// TestANodeCannotClaimWhatIsNotItsOwn registers nodes whose kubelets chose their ranges.
func TestANodeCannotClaimWhatIsNotItsOwn(t *testing.T) {
	old, young := node("b", []string{"100.96.1.0/24"}, "10.0.0.2"), node("a", []string{"100.96.1.0/24"}, "10.0.0.9")
	old.CreationTimestamp, young.CreationTimestamp = metav1.Unix(100, 0), metav1.Unix(200, 0)
	nodes := []*corev1.Node{
		node("self", []string{"100.96.0.0/24"}, "10.0.0.1"), young, old,
		node("the-machines", []string{"10.77.0.0/24"}, "10.0.0.3"),
		node("half-of-all", []string{"100.96.0.0/12"}, "10.0.0.4"),
		node("one-address", []string{"100.96.9.9/32"}, "10.0.0.5"),
		node("everything", []string{"0.0.0.0/0"}, "10.0.0.6"),
		node("self-overlapping", []string{"100.96.0.0/24"}, "10.0.0.7"),
	}
	want := []Route{{netip.MustParsePrefix("100.96.1.0/24"), netip.MustParseAddr("10.0.0.2")}}
	if got := cluster().Desired(nodes, "self"); !slices.Equal(got, want) {
		t.Errorf("routes %v, want %v", got, want)
	}
}

// TestTheRangeOfTheOnlyNodeIsNotRefused checks that the range of the only node gets no
// unreachable route, which would be a second route for that range.
func TestTheRangeOfTheOnlyNodeIsNotRefused(t *testing.T) {
	n := Network{Pods: []netip.Prefix{netip.MustParsePrefix("100.96.1.0/24"), netip.MustParsePrefix("100.96.7.0/23")}, Bits: 24}
	if got, want := n.Bounds(), []Route{{Pods: netip.MustParsePrefix("100.96.6.0/23")}}; !slices.Equal(got, want) {
		t.Errorf("refused are %v, want %v", got, want)
	}
}

func agent(t *testing.T, k Kernel) *Agent {
	t.Helper()
	return &Agent{Node: "self", CNIFolder: filepath.Join(t.TempDir(), "net.d"), Network: cluster(), Kernel: k, Log: slog.New(slog.DiscardHandler)}
}

func TestTheMachineFollowsTheNodes(t *testing.T) {
	k := &table{routes: map[netip.Prefix]netip.Addr{netip.MustParsePrefix("100.96.77.0/24"): netip.MustParseAddr("10.0.0.77")}}
	a := agent(t, k)
	file := filepath.Join(a.CNIFolder, ConflistName)
	self, b := node("self", nil, "10.0.0.1"), node("b", []string{"100.96.1.0/24"}, "10.0.0.2")
	if err := a.Sync([]*corev1.Node{self, b}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a configuration is written though the node has no range")
	}
	for _, all := range cluster().Pods {
		if via, ok := k.routes[all]; !ok || via.IsValid() {
			t.Errorf("packets to the pods of no node, in %s, are not refused: %v", all, k.routes)
		}
	}
	if len(k.routes) != 3 || k.routes[netip.MustParsePrefix("100.96.1.0/24")] != netip.MustParseAddr("10.0.0.2") {
		t.Errorf("routes: %v", k.routes)
	}
	self.Spec.PodCIDRs = []string{"100.96.0.0/24"}
	b.Status.Addresses[2].Address = "10.0.0.3" // the machine was replaced
	if err := a.Sync([]*corev1.Node{self, b}); err != nil {
		t.Fatal(err)
	}
	if k.routes[netip.MustParsePrefix("100.96.1.0/24")] != netip.MustParseAddr("10.0.0.3") {
		t.Errorf("routes: %v", k.routes)
	}
	first, err := os.Stat(file)
	if err != nil || first.Mode().Perm() != 0o644 {
		t.Fatalf("%v %v", first, err)
	}
	if err := a.Sync([]*corev1.Node{self}); err != nil || len(k.routes) != 2 {
		t.Errorf("routes: %v: %v", k.routes, err)
	}
	if second, err := os.Stat(file); err != nil || !os.SameFile(first, second) {
		t.Errorf("an unchanged configuration is written again: %v", err)
	}
	if all, err := os.ReadDir(a.CNIFolder); err != nil || len(all) != 1 {
		t.Errorf("%v %v", all, err)
	}
}

func TestOneBadRouteDoesNotStopTheRest(t *testing.T) {
	k := &table{routes: map[netip.Prefix]netip.Addr{}, fail: netip.MustParsePrefix("100.96.1.0/24")}
	a := agent(t, k)
	err := a.Sync([]*corev1.Node{node("self", []string{"100.96.0.0/24"}, "10.0.0.1"), node("b", []string{"100.96.1.0/24"}, "10.0.0.2"), node("c", []string{"100.96.2.0/24"}, "10.0.0.3")})
	if err == nil || !strings.Contains(err.Error(), "unreachable") || len(k.routes) != 3 {
		t.Errorf("routes %v: %v", k.routes, err)
	}
	if _, err := os.Stat(filepath.Join(a.CNIFolder, ConflistName)); err != nil {
		t.Error(err)
	}
}

func TestTheConfigurationHoldsEveryRange(t *testing.T) {
	text, err := Conflist([]netip.Prefix{netip.MustParsePrefix("100.96.0.0/24"), netip.MustParsePrefix("fd00:1::/64")})
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		CNIVersion string
		Plugins    []struct {
			Type string
			IPAM struct {
				Type   string
				Ranges [][]struct{ Subnet string }
				Routes []struct{ Dst string }
			}
		}
	}
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	p := c.Plugins[0]
	if c.CNIVersion != "1.0.0" || p.Type != "bridge" || p.IPAM.Type != "host-local" || len(p.IPAM.Ranges) != 2 || p.IPAM.Ranges[1][0].Subnet != "fd00:1::/64" || p.IPAM.Routes[1].Dst != "::/0" || c.Plugins[1].Type != "portmap" {
		t.Errorf("got %s", text)
	}
	if _, err := Conflist(nil); err == nil {
		t.Error("no range is accepted")
	}
}
