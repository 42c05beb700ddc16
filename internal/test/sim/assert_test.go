package sim

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
)

// checkReplacementNeeded asserts that no other object of the name could have been kept instead
// of the replaced one.
func (s *stage) checkReplacementNeeded(st plan.Step) {
	s.Helper()
	if s.world.Stale != nil || s.racing {
		return // the planner did not see the current state
	}
	for _, o := range s.world.Objects(Cluster, false) {
		if o.Kind == st.Address.Kind && o.Name == st.Key && replaceOnlyFields(o.Got) == replaceOnlyFields(st.Want) {
			s.failf("%s is replaced, though %s could be kept", st.Address, o.ID)
		}
	}
}

// replaceOnlyFields returns the fields of an object that only a replacement changes, as text.
func replaceOnlyFields(o any) string {
	var out []string
	v := reflect.ValueOf(o).Elem()
	for i := range v.NumField() {
		if strings.HasPrefix(v.Type().Field(i).Tag.Get("res"), "replace") {
			out = append(out, fmt.Sprint(v.Field(i).Interface()))
		}
	}
	return strings.Join(out, "|")
}

// checkSettled asserts that the world matches the graph: one object for each
// node, with its fields, and no other, except for those that only pruning removes.
func (s *stage) checkSettled(g *graph.Graph, p *plan.Plan) {
	s.Helper()
	if !p.Empty() {
		s.failf("the plan after convergence is not empty: %s", steps(p))
	}
	left := map[string]Object{}
	for _, o := range s.world.Objects(Cluster, false) {
		left[o.ID] = o
	}
	// held are the objects of the nodes, found by kind and name alone.
	held := map[resource.Address]any{}
	lookup := func(a resource.Address, attr string) (string, bool) {
		n, _ := g.Get(a)
		return n.Kind.Schema().Attr(held[a], attr)
	}
	for n := range g.All() {
		if n.Adopt != "" {
			i := slices.IndexFunc(s.foreign, func(o Object) bool { return o.ID == n.Adopt })
			held[n.Address] = s.foreign[i].Got
			continue
		}
		want := n.Kind.Schema().Resolved(n.Want, lookup)
		key, found := n.Kind.KeyOf(want), ""
		for id, o := range left {
			if o.Kind == n.Address.Kind && o.Name == key {
				if found != "" {
					s.failf("%s exists twice: %s and %s", n.Address, found, id)
				}
				found = id
			}
		}
		if found == "" {
			s.failf("%s does not exist", n.Address)
		}
		held[n.Address] = left[found].Got
		if d := cmp.Diff(facts(want, want), facts(want, held[n.Address])); d != "" {
			s.failf("%s is not as desired (-want +have):\n%s", n.Address, d)
		}
		delete(left, found)
	}
	for _, d := range p.Deferred {
		delete(left, reflect.ValueOf(d.Have).Elem().FieldByName("ID").String())
	}
	for id, o := range left {
		s.failf("%s (%s) is left over", id, o.Name)
	}
}

// checkStayed asserts that unwanted objects were not deleted without pruning, except those that grant
// access, whose deletion settle checks.
func (s *stage) checkStayed(g *graph.Graph, owned []Object) {
	s.Helper()
	wanted, exists := map[string]bool{}, map[string]bool{}
	for n := range g.All() {
		if n.Adopt == "" {
			wanted[n.Address.String()] = true
		}
	}
	for _, o := range s.world.Objects(Cluster, false) {
		exists[o.ID] = true
		wanted[o.Kind+"/"+o.Name] = true // rules, whose names differ from their nodes'
	}
	for _, o := range owned {
		if r, ok := o.Got.(*Rule); ok && r.Port%2 == 1 {
			continue
		}
		if !exists[o.ID] && !wanted[o.Kind+"/"+o.Name] {
			s.failf("%s (%s) was deleted without pruning", o.ID, o.Name)
		}
	}
}

// facts returns the fields of an object that are neither outputs nor left to
// the cloud. It does not use the engine's own comparison.
func facts(want, o any) map[string]string {
	out := map[string]string{}
	w, v := reflect.ValueOf(want).Elem(), reflect.ValueOf(o).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if strings.HasPrefix(f.Tag.Get("res"), "out") || strings.HasPrefix(f.Tag.Get("res"), "default") && w.Field(i).IsZero() {
			continue
		}
		switch x := v.Field(i).Interface().(type) {
		case []resource.Value:
			var texts []string
			for _, e := range x {
				texts = append(texts, e.String())
			}
			slices.Sort(texts)
			out[f.Name] = strings.Join(texts, " ")
		case map[string]string:
			for k, e := range x {
				out[f.Name+"."+k] = e
			}
		case resource.Content:
			out[f.Name] = x.Value().String()
		default:
			out[f.Name] = fmt.Sprint(x)
		}
	}
	return out
}

func steps(p *plan.Plan) string {
	var out []string
	for _, s := range p.Steps {
		if s.Op != plan.Keep {
			out = append(out, fmt.Sprintf("%s %s %v", s.Op, s.Address, s.Changes))
		}
	}
	return strings.Join(out, "; ")
}

func (s *stage) checkForeignUntouched() {
	s.Helper()
	if now := s.world.Objects(Cluster, true); !reflect.DeepEqual(s.foreign, now) {
		s.failf("objects of others were touched:\n%v\n%v", s.foreign, now)
	}
}

// mayRefuse reports whether the planner may refuse the change: it must do so
// before anything is done, which holds because a plan is data. Duplicates caused by
// stale listings or two concurrent runs may also block each other.
func mayRefuse(err error, x disturbance) bool {
	if err == nil {
		return false
	}
	return strings.Contains(err.Error(), "which stays, uses it") || strings.Contains(err.Error(), "cannot change from") ||
		x.isBlind() && strings.Contains(err.Error(), "in a cycle")
}

// isBlocked reports whether every failure of a run is that an obstacle remained
// for so long that the step gave up.
func isBlocked(err error) bool {
	var failed *exec.Error
	if !errors.As(err, &failed) {
		return false
	}
	return !slices.ContainsFunc(failed.Failed, func(e *exec.StepError) bool { return !fault.Is(e, fault.Conflict) })
}

func TestKindsAreSound(t *testing.T) {
	for _, k := range Kinds() {
		if err := k.Check(); err != nil {
			t.Error(err)
		}
	}
}
