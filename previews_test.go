package kops_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/store"
)

// meeting blocks requests until all of the named ones are in progress.
type meeting struct {
	mu                sync.Mutex
	expected, arrived []string
	all               chan struct{}
}

// expect names the requests of the next meeting, by substrings.
func (m *meeting) expect(of ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expected, m.arrived, m.all = of, nil, make(chan struct{})
}

// arrive is called for each request.
func (m *meeting) arrive(request string) {
	m.mu.Lock()
	i := slices.IndexFunc(m.expected, func(part string) bool { return strings.Contains(request, part) })
	if i < 0 || slices.Contains(m.arrived, m.expected[i]) {
		m.mu.Unlock()
		return
	}
	all := m.all
	if m.arrived = append(m.arrived, m.expected[i]); len(m.arrived) == len(m.expected) {
		close(all)
	}
	m.mu.Unlock()
	select {
	case <-all:
	case <-time.After(5 * time.Second):
	}
}

// expectMet checks that all were in progress at the same time.
func (m *meeting) expectMet(t *testing.T, command string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.all:
	default:
		t.Errorf("%s: of %q only %q were asked", command, m.expected, m.arrived)
	}
}

// meets is a store whose reads take part in a meeting.
type meets struct {
	store.Store
	m *meeting
}

func (s meets) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	s.m.arrive("get " + key)
	return s.Store.Get(ctx, key)
}

// TestPreviewsReadAtOnce checks that independent reads are concurrent.
func TestPreviewsReadAtOnce(t *testing.T) {
	b := newAppliedBench(t)
	f := b.fleet()
	f.drifts["nodes-here"], f.outdated["nodes-here"] = platform.Drift{Config: nodeconfig.Hash(b.configOf("nodes-here"))}, true
	node := "v1.35.4"
	reach := kops.ReachOptions{Server: "https://" + b.running(&node, &node)}
	b.set("nodes-here", "spec.kubelet.maxPods=50")

	m := &meeting{}
	backend := inside[store.Backend](b.cfg.Store.Backends[0])
	open := backend.Open
	backend.Open = func(ctx context.Context, scheme, rest string) (store.Store, error) {
		s, err := open(ctx, scheme, rest)
		return meets{s, m}, err
	}
	p := inside[platform.Provider](b.cfg.Clouds[0])
	machines, made := p.Fleet.Machines, p.Fleet.Roll.Drift
	p.Fleet.Machines = func(ctx context.Context, s *platform.Session, c *api.Cluster, groups []*api.InstanceGroup) ([]platform.MachineGroup, error) {
		m.arrive("machines")
		return machines(ctx, s, c, groups)
	}
	p.Fleet.Roll.Drift = func(ctx context.Context, s *platform.Session, c *api.Cluster, groups []*api.InstanceGroup, asked []platform.Machine) (map[string]platform.Drift, error) {
		m.arrive("made")
		return made(ctx, s, c, groups, asked)
	}
	b.cfg.Store.Backends, b.cfg.Clouds = []kops.Backend{backend}, []kops.Provider{p}
	b.Client = b.client(func(*kops.Config) {})

	o := kops.DefaultRollout()
	o.ReachOptions = reach
	m.expect("rollout.json", "machines")
	_, err := b.PlanRollout(t.Context(), name, o)
	m.expectMet(t, "rolling-update")
	if err != nil {
		t.Error(err)
	}
	for _, together := range [][]string{
		{"made", "nodes-here/nodeupconfig.yaml", "control-plane-here/nodeupconfig.yaml"},
		{"manifests/etcd/main", "manifests/etcd/events", "manifests/channels", "manifests/static"},
	} {
		m.expect(together...)
		_, err = b.Instances(t.Context(), name, kops.InstancesOptions{ReachOptions: reach})
		m.expectMet(t, "get instances")
		if err != nil {
			t.Error(err)
		}
	}
	m.expect("made", "/revisions/")
	_, err = b.Update(t.Context(), name, kops.UpdateOptions{})
	m.expectMet(t, "update")
	if err != nil {
		t.Error(err)
	}
}
