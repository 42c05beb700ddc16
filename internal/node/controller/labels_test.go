package controller

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/test/kubetest"
)

// groups holds the groups of nodes, and their labels.
type groups struct {
	mu       sync.Mutex
	byNode   map[string]string
	labels   map[string]map[string]string
	taints   []corev1.Taint // of every group
	requests int
}

func (g *groups) GroupOf(_ context.Context, n *corev1.Node) (string, error) {
	if group, ok := g.byNode[n.Name]; ok {
		return group, nil
	}
	return "", fault.New(fault.Gone, "no machine %s", n.Name)
}

func (g *groups) Marks(_ context.Context, group string) (Marks, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests++
	return Marks{Labels: g.labels[group], Taints: g.taints}, nil
}

func TestAgainstARealAPIServer(t *testing.T) {
	config := kubetest.Start(t)
	for name, test := range map[string]func(*testing.T, *rest.Config){
		"labels follow the group": testLabelsFollow,
		"changes of a group":      testChangesFollow,
		"ranges of machines":      testRangesFollow,
		"readiness of a node":     readyNodes,
		"one leads":               testOneLeads,
		"work that fails is told": testLeaderFails,
	} {
		t.Run(name, func(t *testing.T) { test(t, config) })
	}
}

func nodesOf(t *testing.T, config *rest.Config) corev1client.NodeInterface {
	t.Helper()
	c, err := corev1client.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c.Nodes()
}

func newNode(t *testing.T, nodes corev1client.NodeInterface, name string, labels map[string]string) {
	t.Helper()
	if _, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until a node's labels satisfy ok.
func eventually(t *testing.T, nodes corev1client.NodeInterface, name string, ok func(map[string]string) bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		n, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && ok(n.Labels) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s has %v: %v", name, n.Labels, err)
		}
	}
}

func testLabelsFollow(t *testing.T, config *rest.Config) {
	nodes := nodesOf(t, config)
	g := &groups{byNode: map[string]string{"before": "nodes", "after": "nodes"},
		labels: map[string]map[string]string{"nodes": {api.LabelInstanceGroup: "nodes", "node-role.kubernetes.io/node": "", "example.com/disk": "fast"}}}
	newNode(t, nodes, "before", map[string]string{"own": "kept", api.LabelInstanceGroup: "other"})
	newNode(t, nodes, "unknown", nil)
	l := &Labeller{Nodes: nodes, Groups: g, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	good := func(labels map[string]string) bool {
		role, ok := labels["node-role.kubernetes.io/node"]
		return ok && role == "" && labels[api.LabelInstanceGroup] == "nodes" && labels["example.com/disk"] == "fast"
	}
	eventually(t, nodes, "before", good)
	newNode(t, nodes, "after", nil)
	eventually(t, nodes, "after", good)
	for _, patch := range []string{
		`{"metadata":{"labels":{"example.com/disk":"slow"}}}`,
		`{"metadata":{"labels":{"example.com/disk":null,"kops.k8s.io/instancegroup":null}}}`,
	} {
		if _, err := nodes.Patch(t.Context(), "before", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, nodes, "before", good)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	n, err := nodes.Get(t.Context(), "before", metav1.GetOptions{})
	if err != nil || n.Labels["own"] != "kept" {
		t.Errorf("labels %v: %v", n.Labels, err)
	}
	if n, err := nodes.Get(t.Context(), "unknown", metav1.GetOptions{}); err != nil || len(n.Labels) != 0 {
		t.Errorf("an unknown node has labels %v: %v", n.Labels, err)
	}
	if g.requests != 1 {
		t.Errorf("the labels of the group were read %d times", g.requests)
	}
}

// prefixes holds nodes' prefixes; the first call for a node fails.
type prefixes struct {
	byNode   map[string]string
	requests map[string]int
}

func (p *prefixes) Prefix(_ context.Context, n *corev1.Node) (string, error) {
	if p.requests[n.Name]++; p.requests[n.Name] == 1 {
		return "", fault.New(fault.NotYet, "the cloud does not answer")
	}
	if prefix, ok := p.byNode[n.Name]; ok {
		return prefix, nil
	}
	return "", fault.New(fault.Gone, "no machine %s", n.Name)
}

func testRangesFollow(t *testing.T, config *rest.Config) {
	nodes := nodesOf(t, config)
	p := &prefixes{byNode: map[string]string{"ranged-early": "fd00:1::/80", "ranged-late": "fd00:2::/80", "ranged-already": "fd00:3::/80"}, requests: map[string]int{}}
	newNode(t, nodes, "ranged-early", nil)
	newNode(t, nodes, "ranged-unknown", nil)
	already := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ranged-already"}, Spec: corev1.NodeSpec{PodCIDR: "fd00:9::/80", PodCIDRs: []string{"fd00:9::/80"}}}
	if _, err := nodes.Create(t.Context(), already, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- (&Ranger{Nodes: nodes, Prefixes: p, Log: slog.New(slog.DiscardHandler)}).Run(ctx) }()
	expect := func(name, want string) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			n, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
			if err == nil && n.Spec.PodCIDR == want && len(n.Spec.PodCIDRs) <= 1 {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s has %v: %v", name, n.Spec, err)
			}
		}
	}
	expect("ranged-early", "fd00:1::/80")
	newNode(t, nodes, "ranged-late", nil)
	expect("ranged-late", "fd00:2::/80")
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	expect("ranged-already", "fd00:9::/80")
	expect("ranged-unknown", "")
	if p.requests["ranged-already"] > 0 {
		t.Error("the range of a node that has one was asked for")
	}
}

func readyNodes(t *testing.T, config *rest.Config) {
	nodes := nodesOf(t, config)
	live := LiveNodes{nodes}
	newNode(t, nodes, "joining", nil)
	expect := func(name string, want NodeState) {
		t.Helper()
		if got, err := live.State(t.Context(), name); err != nil || got != want {
			t.Errorf("the state of %s is %v, %v", name, got, err)
		}
	}
	expect("absent", NodeAbsent)
	expect("joining", NodeNotReady)
	for _, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionUnknown, corev1.ConditionFalse} {
		patch := `{"status":{"conditions":[{"type":"Ready","status":"` + string(status) + `"}]}}`
		if _, err := nodes.Patch(t.Context(), "joining", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		expect("joining", map[bool]NodeState{true: NodeReady, false: NodeNotReady}[status == corev1.ConditionTrue])
	}
}

func leasesOf(t *testing.T, config *rest.Config) coordinationv1client.LeasesGetter {
	t.Helper()
	c, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func testOneLeads(t *testing.T, config *rest.Config) {
	leases := leasesOf(t, config)
	var mu sync.Mutex
	var leaders []string
	started := make(chan string, 2)
	work := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			mu.Lock()
			leaders = append(leaders, name)
			mu.Unlock()
			started <- name
			<-ctx.Done()
			return ctx.Err()
		}
	}
	contexts := map[string]context.CancelFunc{}
	ended := make(chan error, 2)
	for _, name := range []string{"a", "b"} {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		contexts[name] = stop
		go func() { ended <- Lead(ctx, leases, name, work(name)) }()
	}
	first := <-started
	contexts[first]() // releases the lease
	if err := <-ended; err != nil {
		t.Error(err)
	}
	second := <-started
	contexts[second]()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if slices.Sort(leaders); !slices.Equal(leaders, []string{"a", "b"}) {
		t.Errorf("led: %v", leaders)
	}
}

func testLeaderFails(t *testing.T, config *rest.Config) {
	err := Lead(t.Context(), leasesOf(t, config), "failing", func(context.Context) error { return errors.New("no nodes to be seen") })
	if err == nil || !strings.Contains(err.Error(), "no nodes to be seen") {
		t.Errorf("got %v", err)
	}
}
