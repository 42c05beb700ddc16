package servers

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform"
)

// atOnce is how many servers of a group are started, or ended, at a time.
const atOnce = 8

// apply makes the servers of a group match: it labels those that exist, starts missing ones, and ends
// surplus ones. It can be repeated after an interruption.
func (f *Fleet[T, C]) apply(ctx context.Context, c C, want *T) error {
	g := f.Group(want)
	data, ok := g.UserData.Value().Known()
	if !ok {
		return fault.New(fault.Permanent, "the user data of the group %s is not known yet", g.Name)
	}
	r := record{g.Made, encodeDigest(data), encodeHash(platform.ConfigHash(data))}
	all, err := f.members(ctx, c, g)
	if err != nil {
		return err
	}
	counted, err := f.label(ctx, c, all, func(s Server) map[string]string { return s.labelsFor(g.Labels, r) })
	if err != nil {
		return err
	}
	var work errgroup.Group
	work.SetLimit(atOnce)
	var started atomic.Int32
	for _, name := range f.newNames(g, all, g.Least-len(counted)) {
		work.Go(func() error {
			err := f.start(ctx, c, want, r, Launch{Name: name, UserData: data})
			if err == nil {
				started.Add(1)
			}
			return err
		})
	}
	for _, s := range surplus(counted, len(counted)-max(g.Most, g.Least)) {
		work.Go(func() error { return fault.IgnoreGone(f.End(ctx, c, s)) })
	}
	err = work.Wait()
	late := f.await(ctx, c, g, all, int(started.Load()))
	if fault.Is(late, fault.NotYet) {
		return fault.Wrap(fault.Permanent, errors.Join(late, err), remedyLag)
	}
	return cmp.Or(err, late)
}

// remedyLag is for a list that lags so far behind that the step must not be repeated.
const remedyLag = "run the command again when the platform lists the new servers: it would start others in their place before"

// await waits until a group has n servers more than before. Otherwise, if the step is repeated and the
// list lags behind, they would be started twice. The class of its error is fault.NotYet if it lags too
// far.
func (f *Fleet[T, C]) await(ctx context.Context, c C, g Group, before []Server, n int) error {
	pause := f.Pause
	switch {
	case n == 0:
		return nil
	case pause == nil:
		pause = clock.Sleep
	}
	return fault.Retry(ctx, pause, func() error {
		all, err := f.members(ctx, c, g)
		if err != nil {
			return fmt.Errorf("look for the new servers of the group %s: %w", g.Name, err)
		}
		added := choose(all, func(s Server) bool {
			return !slices.ContainsFunc(before, func(b Server) bool { return b.ID == s.ID })
		})
		if len(added) < n {
			return fault.New(fault.NotYet, "the list of the servers of the group %s has %d of %d new ones", g.Name, len(added), n)
		}
		return nil
	})
}

// members lists the servers of a group; those of no group if its name is empty.
func (f *Fleet[T, C]) members(ctx context.Context, c C, g Group) ([]Server, error) {
	all, err := f.List(ctx, c, g.Cluster, g.Name)
	return choose(all, func(s Server) bool { return s.Group == g.Name }), err
}

// choose returns the servers of a list, which others may still use, that have a property.
func choose(list []Server, has func(Server) bool) []Server {
	return slices.DeleteFunc(slices.Clone(list), func(s Server) bool { return !has(s) })
}

// label sets the labels of a group's servers, and returns those that the group counts.
func (f *Fleet[T, C]) label(ctx context.Context, c C, all []Server, want func(Server) map[string]string) (counted []Server, err error) {
	for _, s := range all {
		if s.Ending {
			continue
		}
		if l := want(s); !maps.Equal(l, s.Labels) {
			err := f.Label(ctx, c, s, l)
			if fault.Is(err, fault.Gone) { // an autoscaler, or a user, has ended it since
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("label the server %s: %w", s.Name, err)
			}
			s.Labels = l
		}
		if s.isCounted() {
			counted = append(counted, s)
		}
	}
	return counted, nil
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
		return cmp.Or(cmp.Compare(value(a), value(b)), b.Created.Compare(a.Created), cmp.Compare(b.Name, a.Name))
	})
	return list[:n]
}

// attempts is how often a server is started if the response is lost.
const attempts = 3

// start starts one server. If the response is lost, it is repeated with the same name unless a server has
// it now, so that there is one server in any case.
func (f *Fleet[T, C]) start(ctx context.Context, c C, want *T, r record, l Launch) error {
	g := f.Group(want)
	l.Labels = Server{Made: r.made, Labels: map[string]string{userDataLabel: r.userData, configLabel: r.config}}.labelsFor(g.Labels, r)
	for n := 1; ; n++ {
		err := f.Start(ctx, c, want, l)
		isTaken := fault.Is(err, fault.Taken)
		if err == nil || isTaken && n > 1 {
			return nil
		}
		if isTaken { // by a server that the list did not have yet: the next one tells
			err = fault.Wrap(fault.Conflict, err, "")
		}
		if n == attempts || !fault.Is(err, fault.Lost) || ctx.Err() != nil {
			return fmt.Errorf("start a server of the group %s: %w", g.Name, err)
		}
		all, err := f.members(ctx, c, g)
		if err != nil {
			return fmt.Errorf("look for the new servers of the group %s: %w", g.Name, err)
		}
		if slices.ContainsFunc(all, func(s Server) bool { return s.Name == l.Name }) {
			return nil
		}
	}
}

// newNames returns the names of n new servers of a group.
func (f *Fleet[T, C]) newNames(g Group, all []Server, n int) []string {
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	for range n {
		names = append(names, f.newName(g, names))
	}
	return names[len(all):]
}

func (f *Fleet[T, C]) newName(g Group, taken []string) string {
	if f.Name != nil {
		return f.Name(g, taken)
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[0] &= 0x7f           // kOps writes random numbers of 63 bits
	return g.Name + "-" + strings.TrimLeft(hex.EncodeToString(b[:]), "0")
}

// ready returns an error while a server of a group is starting.
func (f *Fleet[T, C]) ready(ctx context.Context, c C, want *T) error {
	all, err := f.members(ctx, c, f.Group(want))
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
	all, err := f.members(ctx, c, f.Group(have))
	if err != nil {
		return err
	}
	var work errgroup.Group
	work.SetLimit(atOnce)
	for _, s := range all {
		work.Go(func() error { return fault.IgnoreGone(f.End(ctx, c, s)) })
	}
	return work.Wait()
}
