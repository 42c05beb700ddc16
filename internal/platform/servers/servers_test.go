package servers_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/servers"
	"kops.local/kops/internal/platform/servers/serverstest"
)

// group is the kind of groups in a cloud in memory.
type group struct {
	Cluster  string `res:"forbid"`
	Group    string `res:"forbid"`
	Least    int    `res:",least"`
	Most     int    `res:",most"`
	Type     string
	UserData resource.Content
	Labels   map[string]string
}

// memory is a cloud in memory, whose servers are labelled in a call of its own.
type memory struct {
	mu  sync.Mutex
	all []servers.Server
	of  map[string]string // the cluster of each server
}

func (m *memory) list(_ context.Context, _ *memory, cluster, group string) ([]servers.Server, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []servers.Server
	for _, s := range m.all {
		if m.of[s.ID] == cluster && (group == "" || group == s.Group) {
			s.Labels = maps.Clone(s.Labels)
			out = append(out, s)
		}
	}
	return out, nil
}

func (m *memory) start(_ context.Context, _ *memory, g *group, l servers.Launch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.all, func(s servers.Server) bool { return s.Name == l.Name }) {
		return fault.New(fault.Taken, "the name %s is taken", l.Name)
	}
	id := fmt.Sprint(len(m.of) + 1)
	m.of[id] = g.Cluster
	m.all = append(m.all, servers.Server{ID: id, Name: l.Name, Group: g.Group, Labels: l.Labels, Made: map[string]string{"spec.machineType": g.Type},
		State: "running", Running: true, Created: time.Unix(int64(len(m.of)), 0)})
	return nil
}

func (m *memory) label(_ context.Context, _ *memory, s servers.Server, l map[string]string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.all {
		if m.all[i].ID == s.ID {
			m.all[i].Labels = maps.Clone(l)
			return nil
		}
	}
	return fault.New(fault.Gone, "no server %s", s.ID)
}

func (m *memory) end(_ context.Context, _ *memory, s servers.Server) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = slices.DeleteFunc(m.all, func(one servers.Server) bool { return one.ID == s.ID })
	return nil
}

func fleet() *servers.Fleet[group, *memory] {
	return &servers.Fleet[group, *memory]{
		List: func(ctx context.Context, m *memory, cluster, g string) ([]servers.Server, error) {
			return m.list(ctx, m, cluster, g)
		},
		Start: func(ctx context.Context, m *memory, g *group, l servers.Launch) error { return m.start(ctx, m, g, l) },
		Label: func(ctx context.Context, m *memory, s servers.Server, l map[string]string) error {
			return m.label(ctx, m, s, l)
		},
		End: func(ctx context.Context, m *memory, s servers.Server) error { return m.end(ctx, m, s) },
		Group: func(g *group) servers.Group {
			return servers.Group{Cluster: g.Cluster, Name: g.Group, Least: g.Least, Most: g.Most, Labels: g.Labels, Made: map[string]string{"spec.machineType": g.Type}, UserData: g.UserData}
		},
		Observed: func(g servers.Group) *group {
			return &group{Cluster: g.Cluster, Group: g.Name, Least: g.Least, Most: g.Most, Type: g.Made["spec.machineType"], UserData: g.UserData, Labels: g.Labels}
		},
	}
}

func want(_ *memory, cluster, name string, least, most int, small bool, userData string) *group {
	g := &group{Cluster: cluster, Group: name, Least: least, Most: most, Type: "small", UserData: resource.Text(resource.Lit(userData)), Labels: map[string]string{"team": "x"}}
	if !small {
		g.Type = "large"
	}
	return g
}

func base() resource.Kind[group, *memory] {
	return resource.Kind[group, *memory]{Name: "test_servers", API: "test"}
}

func TestFleet(t *testing.T) {
	serverstest.Run(t, serverstest.Subject[group, *memory]{Base: base(), Machines: []string{"Type", "UserData"}, Others: []string{"Least", "Most", "Labels"},
		New: func(testing.TB) (*servers.Fleet[group, *memory], *memory) {
			return fleet(), &memory{of: map[string]string{}}
		}, Want: want})
}

// A server that kOps started has the digest of its user data, and no more. One that Terraform created
// has nothing, so that it has to be replaced.
func TestServersOfKOps(t *testing.T) {
	m := &memory{of: map[string]string{"a": "c", "b": "c"}, all: []servers.Server{
		{ID: "a", Name: "n-1", Group: "n", Running: true, Made: map[string]string{"spec.machineType": "small"}, Labels: map[string]string{"team": "x",
			"kops.k8s.io/instance-userdata": "sha256.ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"}}, // of abc: FIPS 180-2, appendix B.1
		{ID: "b", Name: "n-2", Group: "n", Running: true, Made: map[string]string{"spec.machineType": "small"}, Labels: map[string]string{"team": "x"}},
	}}
	k := fleet().Kind(base(), []string{"Type", "UserData"}, []string{"Least", "Most", "Labels"})
	update := func(userData string) {
		t.Helper()
		if err := k.Update[0].Set(t.Context(), m, nil, want(m, "c", "n", 2, 2, true, userData)); err != nil {
			t.Fatal(err)
		}
	}
	update("abc")
	if m.all[0].IsOutdated() || !m.all[1].IsOutdated() {
		t.Errorf("outdated: %v, %v", m.all[0].IsOutdated(), m.all[1].IsOutdated())
	}
	for _, s := range m.all {
		for key, value := range s.Labels {
			if len(value) > 63 || strings.Trim(value, "-_.") != value {
				t.Errorf("the label %s has the value %q", key, value)
			}
		}
	}
	if _, marked := m.all[1].Labels[labels.NeedsUpdate]; !marked {
		t.Errorf("kOps would not see that it is outdated: %v", m.all[1].Labels)
	}
	update(userData("new"))
	c := &api.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	drifts, err := fleet().Fleet().Roll.Drift(t.Context(), &platform.Session{Client: m}, c, nil, []platform.Machine{{Name: "n-1"}})
	if d := drifts["n-1"]; err != nil || d.Config != "" || d.Wanted != "bmV3AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" || len(d.Changes) != 1 || d.Changes[0].Have != "ba7816bf" {
		t.Errorf("it was made of %+v, %v", d, err)
	}
}

// A group without servers has nothing that could be created.
func TestAnEmptyGroupIsNotCreated(t *testing.T) {
	k := fleet().Kind(base(), nil, nil)
	if !k.Vacant(want(nil, "c", "n", 0, 3, true, "")) || k.Vacant(want(nil, "c", "n", 1, 3, true, "")) {
		t.Error("only a group that may be empty is vacant")
	}
}

// A group that has no servers for a while still has its size; servers without a group are listed.
func TestMachinesOfAllGroupsAreListed(t *testing.T) {
	m := &memory{of: map[string]string{"a": "c", "b": "c"}, all: []servers.Server{{ID: "a", Name: "x"}, {ID: "b", Name: "y", Group: "old", Ending: true}}}
	two := int32(2)
	g := []*api.InstanceGroup{{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: api.InstanceGroupSpec{MinSize: &two}}}
	all, err := fleet().Fleet().Machines(t.Context(), &platform.Session{Client: m}, &api.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, g)
	if err != nil || len(all) != 2 || all[0].Name != "n" || all[0].Target != 2 || len(all[1].Machines) != 1 || all[1].Machines[0].Running {
		t.Errorf("%+v, %v", all, err)
	}
}

// userData returns a boot script that has a node configuration with the hash of a text.
func userData(text string) string {
	sum := make([]byte, 32)
	copy(sum, text)
	return "cat <<'__EOF_KUBE_ENV'\nNodeupConfigHash: " + base64.StdEncoding.EncodeToString(sum) + "\n__EOF_KUBE_ENV\n"
}
