package drive_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/ops/kubeclient"
	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/ops/roll/drive"
	"kops.local/kops/internal/platform"
)

// faster is how much faster time passes in these tests.
const faster = 40

// world is an in-memory platform, whose machines are nodes of a real API server as long as their
// simulated kubelets run.
type world struct {
	*testing.T
	kubernetes.Interface
	driven *kubeclient.Client
	began  time.Time
	groups []*api.InstanceGroup

	mu       sync.Mutex
	machines map[string]*machine
	targets  map[string]int
	created  int
	// mute, if not empty, is the start report of machines whose kubelets never join.
	mute string
	// fewest is the minimum number of ready machines that a group had.
	fewest  map[string]int
	updates []string
	refills bool
	saved   roll.State
	saves   int
}

type machine struct {
	platform.Machine
	createdAt    time.Time
	mute, joined bool
}

func newWorld(t *testing.T, config *rest.Config) *world {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	driven, err := kubeclient.New(config)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, Interface: client, driven: driven, began: time.Now(), machines: map[string]*machine{}, targets: map[string]int{}, fewest: map[string]int{}, refills: true}
	ctx, stop := context.WithCancel(context.Background())
	var kubelets sync.WaitGroup
	kubelets.Go(func() {
		for clock.Sleep(ctx, 40*time.Millisecond) == nil {
			w.kubelets(ctx)
		}
	})
	t.Cleanup(func() {
		stop()
		kubelets.Wait()
		w.clean()
	})
	return w
}

func (w *world) clean() {
	ctx := context.Background()
	none := int64(0)
	_ = w.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	for _, ns := range []string{"default", "kube-system"} {
		_ = w.CoreV1().Pods(ns).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &none}, metav1.ListOptions{})
		_ = w.PolicyV1().PodDisruptionBudgets(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	}
}

func (w *world) Now() time.Time { return w.began.Add(time.Since(w.began) * faster) }

func (w *world) sleep(ctx context.Context, d time.Duration) error {
	return clock.Sleep(ctx, d/faster)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// group creates an instance group with machines that have joined.
func (w *world) group(name string, role api.InstanceGroupRole, n int) {
	w.Helper()
	g := &api.InstanceGroup{}
	g.Name, g.Spec.Role = name, role
	w.groups = append(w.groups, g)
	w.mu.Lock()
	w.targets[name] = n
	w.mu.Unlock()
	w.refill(name)
	for _, m := range w.names(name) {
		w.await("node "+m, func() bool {
			n, err := w.CoreV1().Nodes().Get(w.Context(), m, metav1.GetOptions{})
			return err == nil && health.Unready(n) == ""
		})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fewest[name] = n
}

// await waits until a condition holds on the real server.
func (w *world) await(what string, condition func() bool) {
	w.Helper()
	for end := time.Now().Add(20 * time.Second); !condition(); {
		if time.Now().After(end) {
			w.Fatalf("waited in vain for %s", what)
		}
		w.must(clock.Sleep(w.Context(), 20*time.Millisecond))
	}
}

// refill creates a group's missing machines.
func (w *world) refill(group string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	have := 0
	for _, m := range w.machines {
		if m.Group == group && !m.Detached {
			have++
		}
	}
	for ; have < w.targets[group]; have++ {
		w.created++
		name := fmt.Sprintf("%s-%d", group, w.created)
		w.machines[name] = &machine{Machine: platform.Machine{Name: name, Group: group, Node: name, Running: true, State: "running"}, createdAt: time.Now(), mute: w.mute != ""}
	}
}

func (w *world) names(group string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for name, m := range w.machines {
		if m.Group == group {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// kubelets keeps the nodes of machines ready, and terminates deleted pods.
func (w *world) kubelets(ctx context.Context) {
	w.mu.Lock()
	alive := map[string]string{} // group by node
	for name, m := range w.machines {
		if !m.mute && time.Since(m.createdAt) > 100*time.Millisecond {
			alive[name] = m.Group
		}
	}
	w.mu.Unlock()
	nodes, err := w.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return // the test is over
	}
	ready := map[string]int{}
	known := map[string]bool{}
	for _, n := range nodes.Items {
		known[n.Name] = true
		if health.Unready(&n) == "" {
			ready[alive[n.Name]]++
		}
		w.apply(ctx, &n)
	}
	w.mu.Lock()
	for name, m := range w.machines { // a kubelet registers its node only once
		if alive[name] != "" && !known[name] && !m.joined {
			m.joined = true
			w.register(ctx, name, m.Group)
		}
	}
	for group := range w.fewest {
		w.fewest[group] = min(w.fewest[group], ready[group])
	}
	w.mu.Unlock()
	none := int64(0)
	for _, ns := range []string{"default", "kube-system"} {
		pods, err := w.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return
		}
		for _, p := range pods.Items {
			if p.DeletionTimestamp != nil || alive[p.Spec.NodeName] == "" {
				_ = w.CoreV1().Pods(ns).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &none}) // the next round tries again
			}
		}
	}
}

// apply does what a machine does when asked to apply its configuration.
func (w *world) apply(ctx context.Context, n *corev1.Node) {
	asked, there, err := labels.Read[labels.Apply](n.Annotations, labels.ApplyConfig)
	if err != nil || !there {
		return
	}
	if done, _, _ := labels.Read[labels.Applied](n.Annotations, labels.ApplyResult); done.Nonce == asked.Nonce {
		return
	}
	n.Annotations[labels.ApplyResult] = labels.Write(labels.Applied{Nonce: asked.Nonce, Done: true})
	_, _ = w.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{}) // on a conflict, the next round tries again
}

func (w *world) register(ctx context.Context, name, group string) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelInstanceGroup: group}}}
	controlPlane := strings.HasPrefix(group, "control")
	if controlPlane {
		n.Labels[labels.ControlPlane] = ""
	} else {
		n.Labels[labels.Node] = ""
	}
	n, err := w.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	if err != nil {
		return
	}
	n.Spec.Taints = nil // the node lifecycle controller would remove what admission added
	if n, err = w.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{}); err != nil {
		return
	}
	if controlPlane {
		for _, c := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd-manager-main"} {
			w.pod("kube-system", c+"-"+name, name, map[string]string{"k8s-app": c})
		}
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, _ = w.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{}) // a node that was deleted meanwhile is not ready
}

// pod creates a ready pod.
func (w *world) pod(ns, name, node string, tags map[string]string) {
	ctx, yes := context.Background(), true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: tags, OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "1", Controller: &yes}}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}}}
	if ns == "kube-system" {
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: "1", Controller: &yes}}
	}
	p, err := w.CoreV1().Pods(ns).Create(ctx, p, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return
	}
	if err != nil {
		w.Error(err)
		return
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if _, err := w.CoreV1().Pods(ns).UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil {
		w.Error(err)
	}
}

// platform is the platform of these machines.
func (w *world) platform() drive.Platform {
	return drive.Platform{
		Machines: func(context.Context) ([]platform.MachineGroup, error) {
			for _, g := range w.groups {
				if w.refills {
					w.refill(g.Name)
				}
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			var out []platform.MachineGroup
			for _, g := range w.groups {
				mg := platform.MachineGroup{Name: g.Name, Target: w.targets[g.Name]}
				for _, name := range slices.Sorted(maps.Keys(w.machines)) {
					if m := w.machines[name]; m.Group == g.Name {
						mg.Machines = append(mg.Machines, m.Machine)
					}
				}
				out = append(out, mg)
			}
			return out, nil
		},
		Detach: func(_ context.Context, m platform.Machine) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if it := w.machines[m.Name]; it != nil {
				it.Detached = true
			}
			return nil
		},
		Terminate: func(_ context.Context, m platform.Machine) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.machines, m.Name)
			return nil
		},
		Update: func(_ context.Context, group string) error {
			w.mu.Lock()
			w.updates = append(w.updates, group)
			w.mu.Unlock()
			w.refill(group)
			return nil
		},
	}
}

// config returns a driver's config; each state that it saves is kept as text, as in a store.
func (w *world) config() drive.Config {
	cl := &api.Cluster{}
	cl.Name = "demo.example.com"
	e := api.EtcdClusterSpec{Name: "main"}
	for _, g := range w.groups {
		if g.Spec.Role == api.RoleControlPlane {
			for range w.targets[g.Name] {
				e.EtcdMembers = append(e.EtcdMembers, api.EtcdMemberSpec{Name: g.Name, InstanceGroup: &g.Name})
			}
		}
	}
	if len(e.EtcdMembers) > 0 {
		cl.Spec.EtcdClusters = append(cl.Spec.EtcdClusters, e)
	}
	return drive.Config{Cluster: cl, Groups: w.groups, Platform: w.platform(), Client: w.driven,
		Server: func(ctx context.Context) (health.Observation, error) {
			_, err := w.Discovery().ServerVersion()
			if err != nil {
				return health.Observation{Problem: &health.Failure{Kind: health.KindAPI, Message: err.Error()}}, ctx.Err()
			}
			return health.Observation{}, nil
		},
		Hash: func(context.Context, string) (string, error) { return "hash", nil },
		Save: func(_ context.Context, s roll.State) error {
			text, err := json.Marshal(s)
			if err != nil {
				return err
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.saves++
			w.saved = roll.State{}
			return json.Unmarshal(text, &w.saved)
		},
		Starts: func(_ context.Context, silent []platform.Machine) map[string]health.Start {
			out := map[string]health.Start{}
			for _, m := range silent {
				out[m.Name] = health.Start{Message: w.mute, Broken: true}
			}
			return out
		},
		Now: w.Now, Sleep: w.sleep}
}

// begin creates the state of a rollout of all machines.
func (w *world) begin(o roll.Options, effect roll.Effect, surge, unavailable int) roll.State {
	w.Helper()
	d := drive.Start(w.Context(), w.config())
	defer d.Stop()
	v, err := d.First(w.Context())
	w.must(err)
	if !v.API {
		w.Fatal("the API server is not seen")
	}
	var plans []roll.Plan
	for _, g := range w.groups {
		p := roll.Plan{Name: g.Name, Role: g.Spec.Role, Surge: surge, Unavailable: unavailable, Refills: w.refills}
		for _, name := range w.names(g.Name) {
			p.Machines = append(p.Machines, roll.Machine{Name: name, Node: name, Effect: effect})
		}
		plans = append(plans, p)
	}
	return roll.New("one", o, plans, v)
}

// options returns the options of a rollout with short waits.
func options() roll.Options {
	o := roll.Defaults()
	o.BastionInterval, o.ControlPlaneInterval, o.NodeInterval, o.PostDrainDelay = 0, 0, 0, 0
	o.Soak, o.ValidateCount = time.Second, 1
	return o
}

// drive drives a rollout to its end, or until change cancels it.
func (w *world) drive(s roll.State, change func(*drive.Config, context.CancelFunc)) (roll.State, error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	cfg := w.config()
	if change != nil {
		change(&cfg, cancel)
	}
	d := drive.Start(ctx, cfg)
	defer d.Stop()
	return d.Run(ctx, s)
}
