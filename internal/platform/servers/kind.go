package servers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/resource"
)

// Kind returns the resource kind of the fleet's groups: base with everything that follows from the
// fleet. base has the kind's name, its API and what else is specific to the cloud, such as a key other
// than the group's name; machines have the names of the fields of T from which machines are made, and
// others of those that may also change.
func (f *Fleet[T, C]) Kind(base resource.Kind[T, C], machines, others []string) *resource.Kind[T, C] {
	k := base
	k.Group = func(o *T) string { return f.Group(o).Name }
	if k.Key == nil {
		k.Key = k.Group
	}
	k.MadeOf, k.Spared = machines, slices.Concat(others, fixedFields(k.Erase().Schema()))
	k.Vacant = func(o *T) bool { return f.Group(o).Least == 0 }
	k.List = f.listGroups
	k.Create = f.apply
	k.Update = []resource.Setter[T, C]{{Fields: slices.Concat(machines, others), Set: func(ctx context.Context, c C, _, want *T) error { return f.apply(ctx, c, want) }}}
	k.Ready = f.ready
	k.Delete = f.endAll
	k.Holds = func(o *T) string {
		switch n := f.Group(o).Least; n {
		case 0:
			return "machines that it no longer counts"
		case 1:
			return "1 machine"
		default:
			return fmt.Sprintf("%d machines", n)
		}
	}
	return &k
}

// fixedFields returns the fields that can never change, such as the group's name.
func fixedFields(s *resource.Schema) []string {
	var out []string
	for _, f := range s.Fields {
		if f.Mode == resource.Forbid {
			out = append(out, f.Name)
		}
	}
	return out
}

// listGroups observes the groups that have servers. If a group counts none of them, it still exists
// until the last one has ended. Servers without a group are only deleted with the cluster.
func (f *Fleet[T, C]) listGroups(ctx context.Context, c C, s resource.Scope) ([]*T, error) {
	all, err := f.List(ctx, c, s.Cluster, "")
	if err != nil {
		return nil, err
	}
	groups := map[string][]Server{}
	for _, one := range all {
		if s.All || one.Group != "" && !one.Ending {
			groups[one.Group] = append(groups[one.Group], one)
		}
	}
	var out []*T
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, f.Observed(observed(s.Cluster, name, groups[name])))
	}
	return out, nil
}

// observed returns the state of a group. Where its servers differ, which happens when an update was
// interrupted, a field has all values, and so none that is wanted.
func observed(cluster, name string, list []Server) Group {
	counted := len(choose(list, Server.isCounted))
	g := Group{Cluster: cluster, Name: name, Least: counted, Most: counted}
	var made, own []map[string]string
	digests := map[string]bool{}
	for _, s := range list {
		r := s.wanted()
		digests[r.userData] = true
		made, own = append(made, r.made), append(own, ownLabels(s.Labels))
		g.Uses = append(g.Uses, s.Uses...)
	}
	g.Made, g.Labels = merge(made), merge(own)
	all := slices.Sorted(maps.Keys(digests))
	digest := decodeDigest(all[0])
	if len(all) > 1 || digest == "" {
		sum := sha256.Sum256([]byte("several or unknown: " + strings.Join(all, " ")))
		digest = hex.EncodeToString(sum[:])
	}
	g.UserData = resource.Digested(digest)
	return g
}

// merge joins the values that servers have for each key.
func merge(list []map[string]string) map[string]string {
	out := map[string]string{}
	for _, one := range list {
		for key := range one {
			if _, done := out[key]; done {
				continue
			}
			var values []string
			for _, other := range list {
				value, ok := other[key]
				if !ok {
					value = "(none)"
				}
				values = append(values, value)
			}
			slices.Sort(values)
			out[key] = strings.Join(slices.Compact(values), ", ")
		}
	}
	return out
}
