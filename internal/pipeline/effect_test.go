package pipeline

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/spec/effects"
)

type template struct {
	Image   string
	Note    string
	Version string `res:"out,volatile" out:"version"`
}

type scaling struct {
	Template resource.Value
	Size     int
}

var (
	templates = resource.Kind[template, any]{Name: "t", Group: func(*template) string { return "nodes" }, MadeOf: []string{"Image"}}
	scalings  = resource.Kind[scaling, any]{Name: "s", Group: func(*scaling) string { return "nodes" }, MadeOf: []string{"Template"}}
)

// Only what machines are created from makes them stale; a count that drifted does not.
func TestAPlanTouchesMachinesByWhatTheyAreMadeOf(t *testing.T) {
	of, one := templates.New("x", template{Image: "a"}), resource.Lit("1")
	for title, c := range map[string]struct {
		template template // as observed
		made     resource.Value
		scaling  scaling // as observed
		op       plan.Op
		want     string
	}{
		"the size drifted":                      {template{Image: "a"}, one, scaling{one, 7}, plan.Update, ""},
		"another image":                         {template{Image: "b"}, of.Out("version"), scaling{one, 2}, plan.Update, "nodes"},
		"only the template's note":              {template{Image: "a", Note: "n"}, of.Out("version"), scaling{one, 2}, plan.Update, ""},
		"the group makes machines of another":   {template{Image: "a"}, one, scaling{resource.Lit("9"), 2}, plan.Update, "nodes"},
		"the group gets a template that is new": {template{Image: "a"}, resource.Out(resource.Address{Kind: "t", Name: "new"}, "version"), scaling{one, 2}, plan.Update, "nodes"},
		"the group goes":                        {template{Image: "a"}, one, scaling{one, 2}, plan.Delete, ""},
	} {
		to := scalings.New("x", scaling{c.made, 2})
		p := &Planned{Plan: &plan.Plan{}}
		for _, s := range []plan.Step{
			{Address: of.Address, Kind: of.Kind, Want: of.Want, Have: &c.template},
			{Address: to.Address, Kind: to.Kind, Want: to.Want, Have: &c.scaling},
		} {
			s.Op, s.Changes = plan.Keep, s.Kind.Schema().Diff(s.Want, s.Have)
			if len(s.Changes) > 0 {
				s.Op = plan.Update
			}
			if c.op == plan.Delete {
				s.Op, s.Want, s.Changes = plan.Delete, nil, nil
			}
			p.Plan.Steps = append(p.Plan.Steps, s)
		}
		if got := strings.Join(slices.Collect(maps.Keys(p.touchedGroups())), " "); got != c.want {
			t.Errorf("%s: machines of %q are said to be behind, want %q", title, got, c.want)
		}
	}
}

// Adding or removing control planes replaces none of the remaining machines; a new disk for a
// remaining member does.
func TestMembersThatComeAndGoChangeNoOtherMachine(t *testing.T) {
	cluster := func(size int32, names ...string) *api.Cluster {
		c := &api.Cluster{}
		e := api.EtcdClusterSpec{Name: "main"}
		for _, n := range names {
			m := api.EtcdMemberSpec{Name: n, InstanceGroup: new("control-plane-" + n)}
			if n == "a" {
				m.VolumeSize = &size
			}
			e.EtcdMembers = append(e.EtcdMembers, m)
		}
		c.Spec.EtcdClusters = []api.EtcdClusterSpec{e}
		return c
	}
	for _, c := range []struct {
		was, now *api.Cluster
		want     string
	}{
		{cluster(20, "a"), cluster(20, "a", "b", "c"), ""},
		{cluster(20, "a", "b", "c"), cluster(20, "a"), ""},
		{cluster(20, "a"), cluster(30, "a", "b", "c"), "spec.etcdClusters[main].etcdMembers[a].volumeSize"},
	} {
		all, err := appliedObjects{cluster: c.was}.ofCluster(effects.Table{}, c.now)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range all {
			got = append(got, x.Field)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("got %q, want %q", s, c.want)
		}
	}
}
