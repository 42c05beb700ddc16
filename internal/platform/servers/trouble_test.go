package servers_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/servers"
)

// bench is a cloud with some servers of the cluster c, and the kind of its groups.
type bench struct {
	*testing.T
	cloud *memory
	fleet *servers.Fleet[group, *memory]
}

func newBench(t *testing.T, all ...servers.Server) *bench {
	b := &bench{t, &memory{of: map[string]string{}, all: all}, fleet()}
	for _, s := range all {
		b.cloud.of[s.ID] = "c"
	}
	return b
}

// server returns a server of the group n.
func server(id string, labels map[string]string) servers.Server {
	return servers.Server{ID: id, Name: "n-" + id, Group: "n", Running: true, State: "running", Made: map[string]string{"spec.machineType": "small"}, Labels: labels}
}

func (b *bench) kind() resource.Any {
	return b.fleet.Kind(base(), []string{"Type", "UserData"}, []string{"Least", "Most", "Labels"}).Erase()
}

// observe returns the groups, by their keys.
func (b *bench) observe(all bool) map[string]*group {
	b.Helper()
	list, err := b.kind().Observe(b.Context(), b.cloud, resource.Scope{Cluster: "c", All: all})
	if err != nil {
		b.Fatal(err)
	}
	out := map[string]*group{}
	for _, o := range list {
		out[o.Key] = o.Got.(*group)
	}
	return out
}

// changes returns the fields of the group n that an update would change.
func (b *bench) changes(want *group) (out []string) {
	b.Helper()
	have := b.observe(false)["n"]
	if have == nil {
		return []string{"missing"}
	}
	for _, c := range b.kind().Schema().Diff(want, have) {
		out = append(out, c.Field)
	}
	return out
}

func (b *bench) update(want *group) error {
	return b.fleet.Kind(base(), nil, nil).Update[0].Set(b.Context(), b.cloud, nil, want)
}

// names returns the names of all servers.
func (b *bench) names() string {
	var out []string
	for _, s := range b.cloud.all {
		out = append(out, s.Name)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// roll returns the functions of a roll, and the arguments that all need.
func (b *bench) roll() (platform.Roll, *platform.Session, *api.Cluster) {
	c := &api.Cluster{}
	c.Name = "c"
	return b.fleet.Fleet().Roll, &platform.Session{Client: b.cloud}, c
}

// An update that was interrupted between two servers is finished by the next, whatever it changed.
func TestWhatOnlySomeServersHaveIsADifference(t *testing.T) {
	b := newBench(t)
	before := want(nil, "c", "n", 2, 2, true, "one")
	b.ok(b.update(before))
	after := want(nil, "c", "n", 2, 2, true, "one")
	after.Labels = map[string]string{"team": "x", "empty": ""}
	label, calls := b.fleet.Label, 0
	b.fleet.Label = func(ctx context.Context, m *memory, s servers.Server, l map[string]string) error {
		if calls++; calls == 2 {
			return fault.New(fault.Permanent, "the program was ended")
		}
		return label(ctx, m, s, l)
	}
	if err := b.update(after); err == nil {
		t.Fatal("the update was not interrupted")
	}
	for _, want := range []*group{before, after} {
		if got := b.changes(want); !slices.Equal(got, []string{"Labels"}) {
			t.Errorf("the changes are %q", got)
		}
	}
	b.ok(b.update(after))
	if got := b.changes(after); got != nil {
		t.Errorf("the next update would change %q", got)
	}
}

// Images have names that labels cannot have, and labels are shorter.
func TestAnyValueCanBeRecorded(t *testing.T) {
	b := newBench(t)
	b.ok(b.update(want(nil, "c", "n", 1, 1, true, "one")))
	own := b.fleet.Group
	b.fleet.Group = func(g *group) servers.Group {
		out := own(g)
		out.Made["network"] = "of " + g.Type // which is not a field of the spec
		return out
	}
	observed := b.fleet.Observed
	b.fleet.Observed = func(g servers.Group) *group {
		out := observed(g)
		if g.Made["network"] != "of "+out.Type {
			t.Errorf("observed was %q", g.Made)
		}
		return out
	}
	for _, value := range []string{"docker.io/acme/node:1.2@sha256:0", "Debian 13 (x86)", "-", "", "ümlaut", "base32.00", strings.Repeat("a", 63), strings.Repeat("a", 64),
		strings.Repeat("a/", 17) + "a", strings.Repeat("a/", 18), strings.Repeat("/-", 500), "base32." + strings.Repeat("z", 200)} {
		w := want(nil, "c", "n", 1, 1, true, "one")
		w.Type = value
		b.ok(b.update(w))
		if got := b.changes(w); got != nil {
			t.Errorf("%q: an update would change %q", value, got)
		}
		for key, text := range b.cloud.all[0].Labels {
			if wrong := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(text)...); len(wrong) > 0 {
				t.Errorf("%q: the label %s has the value %q: %q", value, key, text, wrong)
			}
		}
		roll, session, c := b.roll()
		drifts, err := roll.Drift(t.Context(), session, c, nil, []platform.Machine{{Name: b.cloud.all[0].Name}})
		b.ok(err)
		if got := drifts[b.cloud.all[0].Name].Changes; len(got) != 2 || got[1] != (platform.Change{Field: "spec.machineType", Have: "small", Want: value}) {
			t.Errorf("%q: the drift is %q", value, got)
		}
	}
}

// A server that ends while its group is changed is missing, and the same update replaces it.
func TestServersThatEndDuringAnUpdate(t *testing.T) {
	b := newBench(t, server("a", nil), server("b", nil))
	label := b.fleet.Label
	b.fleet.Label = func(ctx context.Context, m *memory, s servers.Server, l map[string]string) error {
		if s.ID == "a" {
			b.ok(m.end(ctx, m, s))
		}
		return label(ctx, m, s, l)
	}
	b.ok(b.update(want(nil, "c", "n", 2, 2, true, "one")))
	if len(b.cloud.all) != 2 {
		t.Errorf("the servers are %s", b.names())
	}
	b.fleet.End = func(context.Context, *memory, servers.Server) error { return fault.New(fault.Gone, "it is gone") }
	b.ok(b.update(want(nil, "c", "n", 0, 0, true, "one")))
	b.ok(b.kind().Delete(t.Context(), b.cloud, want(nil, "c", "n", 0, 0, true, "one")))
}

// A deletion finds each server of the cluster, and ends those of its own group alone.
func TestEveryServerIsDeleted(t *testing.T) {
	detached, ending, other := server("a", map[string]string{"kops.k8s.io/detached": ""}), server("b", nil), server("c", nil)
	ending.Ending, ending.Group, other.Group = true, "ends", ""
	b := newBench(t, detached, ending, other)
	if got := slices.Sorted(maps.Keys(b.observe(false))); !slices.Equal(got, []string{"n"}) {
		t.Errorf("a group that is not wanted is pruned as long as it has servers: %q", got)
	}
	if g := b.observe(false)["n"]; g.Least != 0 || g.Most != 0 || b.kind().Holds(g) != "machines that it no longer counts" {
		t.Errorf("it counts %d to %d servers, and has %q", g.Least, g.Most, b.kind().Holds(g))
	}
	all := b.observe(true)
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, []string{"", "ends", "n"}) {
		t.Fatalf("with the cluster, %q are deleted", got)
	}
	for _, step := range [][2]string{{"", "n-a n-b"}, {"n", "n-b"}, {"ends", ""}} {
		b.ok(b.kind().Delete(t.Context(), b.cloud, all[step[0]]))
		if got := b.names(); got != step[1] {
			t.Errorf("without the group %q, the servers are %q, want %q", step[0], got, step[1])
		}
	}
}

// An autoscaler starts servers with the digest of their user data, up to the most that a group may have.
func TestServersOfAnAutoscaler(t *testing.T) {
	b := newBench(t)
	b.ok(b.update(want(nil, "c", "n", 1, 3, true, "abc")))
	for _, id := range []string{"x", "y"} {
		b.cloud.of[id] = "c"
		b.cloud.all = append(b.cloud.all, server(id, map[string]string{"team": "x", "kops.k8s.io/instance-userdata": "sha256.ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"}))
	}
	for _, c := range []struct {
		least, most int
		userData    string
		changes     string
		left        int
	}{{1, 3, "abc", "", 3}, {0, 3, "abc", "", 3}, {0, 3, "new", "UserData", 3}, {1, 2, "new", "Most", 2}, {0, 0, "new", "Most", 0}} {
		w := want(nil, "c", "n", c.least, c.most, true, c.userData)
		if got := strings.Join(b.changes(w), " "); got != c.changes {
			t.Errorf("%+v: an update would change %q", c, got)
		}
		b.ok(b.update(w))
		if got := b.changes(w); len(b.cloud.all) != c.left || got != nil && c.left > 0 {
			t.Errorf("%+v: the servers are %s; another update would change %q", c, b.names(), got)
		}
	}
}

// A group whose servers are all detached gets new ones.
func TestAGroupThatCountsNoServersIsFilled(t *testing.T) {
	b := newBench(t, server("a", map[string]string{"kops.k8s.io/detached": ""}))
	w := want(nil, "c", "n", 1, 2, true, "one")
	if got := b.changes(w); !slices.Contains(got, "Least") {
		t.Errorf("an update would change %q", got)
	}
	b.ok(b.update(w))
	if got := b.changes(w); got != nil || len(b.cloud.all) != 2 {
		t.Errorf("the servers are %s; another update would change %q", b.names(), got)
	}
}

// Servers that other programs created have neither labels nor a description; some are marked by kOps.
func TestServersThatAreUnknown(t *testing.T) {
	bare := server("a", nil)
	bare.Made = nil
	b := newBench(t, bare, server("b", map[string]string{"kops.k8s.io/needs-update": "", "wanted.kops.k8s.io/spec.machineType": "small"}))
	b.cloud.all[1].Made = nil
	w := want(nil, "c", "n", 2, 2, true, "one")
	for _, w := range []*group{w, want(nil, "c", "n", 2, 2, true, "")} {
		if got := b.changes(w); !slices.Equal(got, []string{"Type", "UserData", "Labels"}) {
			t.Errorf("an update would change %q", got)
		}
	}
	roll, session, c := b.roll()
	b.ok(roll.Detach(t.Context(), session, c, platform.Machine{Name: "n-a"}))
	if !b.cloud.all[0].IsDetached() {
		t.Error("it is not detached")
	}
	b.ok(b.update(w))
	if got := b.changes(w); got != nil {
		t.Errorf("another update would change %q", got)
	}
}

// An interrupted roll waits for the server that it was ending; another may have its name by then.
func TestTerminateWaitsForAServerThatIsEnding(t *testing.T) {
	first, second := server("a", nil), server("b", nil)
	first.Ending, second.Name = true, first.Name
	for want, all := range map[string][]servers.Server{"a": {first}, "b": {first, second}} {
		b, ended := newBench(t, all...), ""
		b.fleet.End = func(_ context.Context, _ *memory, s servers.Server) error {
			ended += s.ID
			return fault.New(fault.NotYet, "its disk is still attached")
		}
		roll, session, c := b.roll()
		if err := roll.Terminate(t.Context(), session, c, platform.Machine{Name: "n-a"}); !fault.Is(err, fault.NotYet) || ended != want {
			t.Errorf("ended were %q, want %q: %v", ended, want, err)
		}
		b.ok(roll.Terminate(t.Context(), session, c, platform.Machine{Name: "absent"}))
		if err := roll.Detach(t.Context(), session, c, platform.Machine{Name: "absent"}); !fault.Is(err, fault.Gone) {
			t.Errorf("detached was a server that is absent: %v", err)
		}
	}
}

// Of the servers that are too many, one that the same update makes outdated ends first.
func TestOutdatedServersEndFirst(t *testing.T) {
	old, recent := server("a", nil), server("b", nil)
	recent.Made, recent.Created = map[string]string{"spec.machineType": "large"}, old.Created.Add(1)
	recent.Labels = map[string]string{"kops.k8s.io/instance-userdata": "sha256.ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"}
	b := newBench(t, old, recent)
	b.ok(b.update(want(nil, "c", "n", 1, 1, false, "abc")))
	if got := b.names(); got != "n-b" {
		t.Errorf("left are %s", got)
	}
}

// With names that follow from the others, a list that lags behind leads to a name that is taken. This is
// no success, and it passes.
func TestATakenName(t *testing.T) {
	b := newBench(t)
	b.fleet.Name = func(g servers.Group, taken []string) string {
		return g.Name + "-" + string(rune('0'+len(taken)))
	}
	w := want(nil, "c", "n", 1, 1, true, "one")
	b.ok(b.update(w))
	list := b.fleet.List
	b.fleet.List = func(context.Context, *memory, string, string) ([]servers.Server, error) { return nil, nil }
	if err := b.update(w); !fault.Of(err).Retryable() || !strings.Contains(err.Error(), "the name n-0 is taken") {
		t.Errorf("the error is %v", err)
	}
	b.fleet.List = list
	b.ok(b.update(w))
	if got := b.names(); got != "n-0" {
		t.Errorf("the servers are %s", got)
	}
	b.ok(b.update(want(nil, "c", "n", 3, 3, true, "one")))
	for i := range b.cloud.all {
		b.cloud.all[i].Created = b.cloud.all[0].Created
	}
	b.ok(b.update(want(nil, "c", "n", 1, 2, true, "one")))
	if got := b.names(); got != "n-0 n-1" {
		t.Errorf("left are %s", got)
	}
}

// Where names are not unique, a server whose start seems to have failed is found by its name.
func TestNamesNeedNotBeUnique(t *testing.T) {
	b := newBench(t)
	lost := map[string]bool{}
	b.fleet.Start = func(_ context.Context, m *memory, g *group, l servers.Launch) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		id := fmt.Sprint(len(m.of) + 1)
		m.of[id] = g.Cluster
		m.all = append(m.all, servers.Server{ID: id, Name: l.Name, Group: g.Group, Labels: l.Labels, Running: true})
		if !lost[l.Name] {
			lost[l.Name] = true
			return fault.New(fault.Lost, "no answer")
		}
		return nil
	}
	b.ok(b.update(want(nil, "c", "n", 3, 9, true, "one")))
	if len(b.cloud.all) != 3 {
		t.Errorf("the servers are %s", b.names())
	}
	list := b.fleet.List
	b.fleet.List = func(ctx context.Context, m *memory, cluster, g string) ([]servers.Server, error) {
		if len(m.all) > 3 {
			return nil, fault.New(fault.Denied, "no permission")
		}
		return list(ctx, m, cluster, g)
	}
	if err := b.update(want(nil, "c", "n", 4, 9, true, "one")); !fault.Is(err, fault.Denied) || len(b.cloud.all) != 4 {
		t.Errorf("without a list, the servers are %s: %v", b.names(), err)
	}
}

// If a list still lags behind when patience ends, the engine must not repeat the step: that would start other
// servers for those that are missing.
func TestAListThatLagsForLong(t *testing.T) {
	for _, refused := range []bool{false, true} {
		b := newBench(t)
		list, start, starts := b.fleet.List, b.fleet.Start, 0
		b.fleet.List = func(context.Context, *memory, string, string) ([]servers.Server, error) { return nil, nil }
		b.fleet.Start = func(ctx context.Context, m *memory, g *group, l servers.Launch) error {
			m.mu.Lock()
			starts++
			isLost := refused && starts == 1
			m.mu.Unlock()
			if isLost {
				return fault.New(fault.Throttled, "too many requests")
			}
			return start(ctx, m, g, l)
		}
		var waited time.Duration
		b.fleet.Pause = func(_ context.Context, d time.Duration) error { waited += d; return nil }
		w := want(nil, "c", "n", 3, 3, true, "one")
		err := b.update(w)
		if fault.Of(err) != fault.Permanent || !strings.Contains(err.Error(), "has 0 of ") || strings.Contains(err.Error(), "too many requests") != refused || fault.Remedy(err) == "" || waited < 20*time.Second {
			t.Errorf("refused: %t: after %s: %v; %s", refused, waited, err, fault.Remedy(err))
		}
		b.fleet.List = list
		b.ok(b.update(w))
		if len(b.cloud.all) != 3 {
			t.Errorf("refused: %t: the servers are %s", refused, b.names())
		}
	}
}

// A client may give the same list to several callers.
func TestListsAreNotChanged(t *testing.T) {
	ending := server("b", nil)
	ending.Ending, ending.Group = true, "m"
	all := []servers.Server{ending, server("a", nil), server("d", map[string]string{"kops.k8s.io/detached": ""})}
	b := newBench(t)
	b.fleet.List = func(context.Context, *memory, string, string) ([]servers.Server, error) { return all, nil }
	b.fleet.Label = func(context.Context, *memory, servers.Server, map[string]string) error { return nil }
	b.observe(false)
	b.observe(true)
	b.ok(b.update(want(nil, "c", "n", 1, 1, true, "one")))
	b.ok(b.kind().Ready(t.Context(), b.cloud, want(nil, "c", "n", 1, 1, true, "one")))
	roll, session, c := b.roll()
	_, err := b.fleet.Fleet().Machines(t.Context(), session, c, nil)
	b.ok(err)
	b.ok(roll.Detach(t.Context(), session, c, platform.Machine{Name: "n-a"}))
	if all[0].ID+all[1].ID+all[2].ID != "bad" || all[1].Labels != nil || all[1].IsDetached() {
		t.Errorf("the list is now %+v", all)
	}
}
