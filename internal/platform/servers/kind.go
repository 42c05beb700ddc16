package servers

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
)

// Kind returns the resource kind of the fleet's groups: base with everything that follows from the
// fleet. base has the kind's name, its API and what else is specific to the cloud; machines have the
// names of the fields of T from which machines are made, and others of those that may also change.
func (f *Fleet[T, C]) Kind(base resource.Kind[T, C], machines, others []string) *resource.Kind[T, C] {
	k := base
	k.Group = func(o *T) string { return f.Group(o).Name }
	k.Key = k.Group
	k.MadeOf = machines
	k.Vacant = func(o *T) bool { return f.Group(o).Least == 0 }
	k.List = f.listGroups
	k.Create = f.apply
	k.Update = []resource.Setter[T, C]{{Fields: slices.Concat(machines, others), Set: func(ctx context.Context, c C, _, want *T) error { return f.apply(ctx, c, want) }}}
	k.Ready = f.ready
	k.Delete = f.endAll
	k.Holds = func(o *T) string {
		n := f.Group(o).Least
		if n == 1 {
			return "1 machine"
		}
		return fmt.Sprintf("%d machines", n)
	}
	return &k
}

// listGroups observes the groups that have servers.
func (f *Fleet[T, C]) listGroups(ctx context.Context, c C, s resource.Scope) ([]*T, error) {
	all, err := f.List(ctx, c, s.Cluster, "")
	if err != nil {
		return nil, err
	}
	groups := map[string][]Server{}
	for _, one := range all {
		if one.Group != "" && (one.isCounted() || s.All) {
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
	g := Group{Cluster: cluster, Name: name, Labels: map[string]string{}, Made: map[string]string{}}
	digests := map[string]bool{}
	fields, own := map[string]map[string]bool{}, map[string]map[string]bool{}
	for _, s := range list {
		if s.isCounted() {
			g.Least++
		}
		r := s.wanted()
		digests[r.userData] = true
		collect(fields, r.made)
		collect(own, ownLabels(s.Labels))
	}
	g.Most = g.Least
	g.Made, g.Labels = merged(fields), merged(own)
	all := slices.Sorted(maps.Keys(digests))
	if len(all) == 1 && decodeDigest(all[0]) != "" {
		g.UserData = resource.Digested(decodeDigest(all[0]))
	} else {
		sum := sha256.Sum256([]byte(strings.Join(all, " ")))
		g.UserData = resource.Digested(hex.EncodeToString(sum[:]))
	}
	return g
}

// collect adds the values of a server to the values of all.
func collect(to map[string]map[string]bool, values map[string]string) {
	for k, v := range values {
		if to[k] == nil {
			to[k] = map[string]bool{}
		}
		to[k][v] = true
	}
}

// merged joins the values of all servers.
func merged(values map[string]map[string]bool) map[string]string {
	out := map[string]string{}
	for k, all := range values {
		out[k] = strings.Join(slices.Sorted(maps.Keys(all)), ", ")
	}
	return out
}

// apply makes the servers of a group match: it labels those that exist, starts missing ones, and ends
// surplus ones. It can be repeated after an interruption.
func (f *Fleet[T, C]) apply(ctx context.Context, c C, want *T) error {
	g := f.Group(want)
	data, ok := g.UserData.Value().Known()
	if !ok {
		return fault.New(fault.Permanent, "the user data of the group %s is not known yet", g.Name)
	}
	r := record{g.Made, encodeDigest(data), encodeHash(platform.CompareUserData(data, data).Config)}
	all, err := f.List(ctx, c, g.Cluster, g.Name)
	if err != nil {
		return err
	}
	var counted []Server
	var taken []string
	for _, s := range all {
		taken = append(taken, s.Name)
		if s.Ending {
			continue
		}
		if s.isCounted() {
			counted = append(counted, s)
		}
		if l := s.labelsFor(g.Labels, r); !maps.Equal(l, s.Labels) {
			if err := f.Label(ctx, c, s, l); err != nil {
				return fmt.Errorf("label the server %s: %w", s.Name, err)
			}
		}
	}
	var work errgroup.Group
	work.SetLimit(8)
	for range g.Least - len(counted) {
		name := f.newName(g.Name, taken)
		taken = append(taken, name)
		work.Go(func() error { return f.start(ctx, c, want, r, Launch{Name: name, UserData: data}) })
	}
	for _, s := range surplus(counted, len(counted)-max(g.Most, g.Least)) {
		work.Go(func() error { return f.End(ctx, c, s) })
	}
	return work.Wait()
}

// surplus returns the n servers that a group misses least: those that do not run, then those that are
// outdated, then the newest.
func surplus(list []Server, n int) []Server {
	if n <= 0 {
		return nil
	}
	value := func(s Server) int {
		switch {
		case !s.Running && !s.Starting:
			return 0
		case s.IsOutdated():
			return 1
		}
		return 2
	}
	list = slices.SortedStableFunc(slices.Values(list), func(a, b Server) int {
		return cmp.Or(cmp.Compare(value(a), value(b)), b.Created.Compare(a.Created), cmp.Compare(a.Name, b.Name))
	})
	return list[:n]
}

// attempts is how often a server is started whose start was not answered.
const attempts = 3

// start starts one server. A start without an answer is repeated with the same name, so that there is
// one server in any case.
func (f *Fleet[T, C]) start(ctx context.Context, c C, want *T, r record, l Launch) error {
	g := f.Group(want)
	l.Labels = Server{Made: r.made, Labels: map[string]string{userDataLabel: r.userData, configLabel: r.config}}.labelsFor(g.Labels, r)
	for n := 1; ; n++ {
		err := f.Start(ctx, c, want, l)
		switch {
		case err == nil, n > 1 && fault.Is(err, fault.Conflict):
			return nil
		case n == attempts || !fault.Is(err, fault.Lost) || ctx.Err() != nil:
			return fmt.Errorf("start a server of the group %s: %w", g.Name, err)
		}
	}
}

func (f *Fleet[T, C]) newName(group string, taken []string) string {
	if f.Name != nil {
		return f.Name(group, taken)
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[0] &= 0x7f           // kOps writes random numbers of 63 bits
	return group + "-" + strings.TrimLeft(hex.EncodeToString(b[:]), "0")
}

// ready returns an error while a server of a group is starting.
func (f *Fleet[T, C]) ready(ctx context.Context, c C, want *T) error {
	g := f.Group(want)
	all, err := f.List(ctx, c, g.Cluster, g.Name)
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.Starting {
			return fault.New(fault.NotYet, "the server %s is %s", s.Name, s.State)
		}
	}
	return nil
}

// endAll ends the servers of a group.
func (f *Fleet[T, C]) endAll(ctx context.Context, c C, have *T) error {
	g := f.Group(have)
	all, err := f.List(ctx, c, g.Cluster, g.Name)
	if err != nil {
		return err
	}
	var work errgroup.Group
	work.SetLimit(8)
	for _, s := range all {
		work.Go(func() error { return f.End(ctx, c, s) })
	}
	return work.Wait()
}
