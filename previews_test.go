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

// meeting holds requests until all that are named are under way.
type meeting struct {
	mu      sync.Mutex
	of, met []string
	all     chan struct{}
}

// gather names the requests of the next meeting, by a part of each.
func (m *meeting) gather(of ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of, m.met, m.all = of, nil, make(chan struct{})
}

// come is called for each request.
func (m *meeting) come(request string) {
	m.mu.Lock()
	i := slices.IndexFunc(m.of, func(part string) bool { return strings.Contains(request, part) })
	if i < 0 || slices.Contains(m.met, m.of[i]) {
		m.mu.Unlock()
		return
	}
	all := m.all
	if m.met = append(m.met, m.of[i]); len(m.met) == len(m.of) {
		close(all)
	}
	m.mu.Unlock()
	select {
	case <-all:
	case <-time.After(5 * time.Second):
	}
}

// over checks that all were under way at once.
func (m *meeting) over(t *testing.T, command string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.all:
	default:
		t.Errorf("%s: of %q only %q were asked", command, m.of, m.met)
	}
}

// meets is a store whose reads come to a meeting.
type meets struct {
	store.Store
	m *meeting
}

func (s meets) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	s.m.come("get " + key)
	return s.Store.Get(ctx, key)
}

// TestPreviewsReadAtOnce what does not follow from each other.
func TestPreviewsReadAtOnce(t *testing.T) {
	b := applied(t)
	f := b.fleet()
	f.made["nodes-here"], f.outdated["nodes-here"] = platform.Made{Config: nodeconfig.Hash(b.configOf("nodes-here"))}, true
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
	machines, made := p.Machines, p.Roll.Made
	p.Machines = func(ctx context.Context, s *platform.Session, c *api.Cluster, groups []*api.InstanceGroup) ([]platform.MachineGroup, error) {
		m.come("machines")
		return machines(ctx, s, c, groups)
	}
	p.Roll.Made = func(ctx context.Context, s *platform.Session, c *api.Cluster, groups []*api.InstanceGroup, asked []platform.Machine) (map[string]platform.Made, error) {
		m.come("made")
		return made(ctx, s, c, groups, asked)
	}
	b.cfg.Store.Backends, b.cfg.Clouds = []kops.Backend{backend}, []kops.Provider{p}
	b.Client = b.client(func(*kops.Config) {})

	o := kops.DefaultRollout()
	o.ReachOptions = reach
	m.gather("rollout.json", "machines")
	_, err := b.PlanRollout(t.Context(), name, o)
	m.over(t, "rolling-update")
	if err != nil {
		t.Error(err)
	}
	for _, together := range [][]string{
		{"made", "nodes-here/nodeupconfig.yaml", "control-plane-here/nodeupconfig.yaml"},
		{"manifests/etcd/main", "manifests/etcd/events", "manifests/channels", "manifests/static"},
	} {
		m.gather(together...)
		_, err = b.Instances(t.Context(), name, kops.InstancesOptions{ReachOptions: reach})
		m.over(t, "get instances")
		if err != nil {
			t.Error(err)
		}
	}
	m.gather("made", "/revisions/")
	_, err = b.Update(t.Context(), name, kops.UpdateOptions{})
	m.over(t, "update")
	if err != nil {
		t.Error(err)
	}
}
