package etcd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// lastBefore36 is the first 3.5 from which a member may go to 3.6: earlier ones
// keep a promoted learner as a learner in the part of the data that 3.6 reads
// (etcd's guide "Upgrade etcd from v3.5 to v3.6").
const lastBefore36 = "3.5.26"

// parseVersion reads 3.6.12, with or without a leading v.
func parseVersion(s string) (semver.Version, error) {
	return semver.Parse(strings.TrimPrefix(s, "v"))
}

// compareVersions orders versions; what is none sorts first.
func compareVersions(a, b string) int {
	x, xerr := parseVersion(a)
	y, yerr := parseVersion(b)
	switch {
	case xerr != nil && yerr != nil:
		return strings.Compare(a, b)
	case xerr != nil:
		return -1
	case yerr != nil:
		return 1
	}
	return x.Compare(y)
}

// Pick returns the version among those at hand that serves a wanted one: itself,
// or else the newest of its minor version that is not older.
func Pick(available []string, want string) (string, bool) {
	if slices.Contains(available, want) {
		return want, true
	}
	w, err := parseVersion(want)
	if err != nil {
		return "", false
	}
	best := ""
	for _, a := range available {
		v, err := parseVersion(a)
		if err == nil && v.Major == w.Major && v.Minor == w.Minor && v.GTE(w) && (best == "" || compareVersions(a, best) > 0) {
			best = a
		}
	}
	return best, best != ""
}

// version changes the version of the members, one after the other, etcd's leader last.
func (s *situation) version() Decision {
	to, down, err := s.hop()
	if err != nil {
		return Decision{Note: err.Error()}
	}
	var todo []Member
	for _, m := range s.voters() {
		p, ok := s.peerOf(m)
		if !ok {
			continue
		}
		if v, ok := Pick(p.Versions, to); !ok {
			return Decision{Note: fmt.Sprintf("peer %s has no etcd %s", p.ID, to)}
		} else if v != p.State.Version {
			todo = append(todo, m)
		}
	}
	voters := s.voters()
	switch {
	case len(todo) == 0 && slices.ContainsFunc(voters, func(m Member) bool { return m.Downgrade != "" }):
		return Decision{Actions: []Action{AllowDowngrade{}}}
	case len(todo) == 0:
		return Decision{}
	case len(voters) != s.Spec.MemberCount || len(healthy(voters)) != len(voters) || len(s.seated()) != len(voters) || s.quarantined():
		return Decision{Note: fmt.Sprintf("etcd %s has to wait until all %d members are healthy", to, s.Spec.MemberCount)}
	}
	if first := s.ensureBackup("before etcd changes to " + to); first != nil {
		return Decision{Actions: first}
	}
	if down {
		if d := s.prepareDowngrade(to); len(d.Actions) > 0 || d.Note != "" {
			return d
		}
	}
	slices.SortStableFunc(todo, func(a, b Member) int { return rankLeader(a) - rankLeader(b) })
	next := todo[0]
	if next.Leader && len(voters) > 1 {
		heir := voters[slices.IndexFunc(voters, func(m Member) bool { return !m.Leader })]
		return Decision{Actions: []Action{MoveLeader{heir.ID, heir.Name}}, Soon: true}
	}
	p, _ := s.peerOf(next)
	v, _ := Pick(p.Versions, to)
	return Decision{Soon: true, Actions: []Action{Run{Peer: p.ID, Token: p.State.Token, Seat: p.State.Seat, Version: v}}}
}

func rankLeader(m Member) int {
	if m.Leader {
		return 1
	}
	return 0
}

// hop returns the version that the members go to next on their way to the wanted
// one. etcd goes up and down by one minor version at a time.
func (s *situation) hop() (to string, down bool, err error) {
	want, err := parseVersion(s.Spec.EtcdVersion)
	if err != nil {
		return "", false, err
	}
	var lowest, highest semver.Version
	var available []string
	for i, p := range s.seated() {
		v, err := parseVersion(p.State.Version)
		if err != nil {
			return "", false, fmt.Errorf("peer %s runs etcd %q: %w", p.ID, p.State.Version, err)
		}
		if i == 0 || v.LT(lowest) {
			lowest = v
		}
		if i == 0 || v.GT(highest) {
			highest = v
		}
		available = append(available, p.Versions...)
	}
	step := func(minor uint64) (string, error) {
		at := fmt.Sprintf("%d.%d.0", lowest.Major, minor)
		if v, ok := Pick(available, at); ok && !slices.Contains(available, at) {
			return v, nil
		} else if ok {
			return newest(available, v), nil
		}
		return "", fmt.Errorf("etcd cannot go from %s to %s at once, and no etcd %d.%d is there", lowest, want, lowest.Major, minor)
	}
	switch {
	case want.Major != lowest.Major:
		return "", false, fmt.Errorf("etcd cannot go from %s to %s in place", lowest, want)
	case want.Minor > lowest.Minor && lowest.Minor == 5 && s.olderThan(lastBefore36):
		if to, err = step(5); err == nil && compareVersions(to, lastBefore36) < 0 {
			err = fmt.Errorf("etcd 3.6 follows %s or later, and no such etcd is there", lastBefore36)
		}
		return to, false, err
	case want.Minor > lowest.Minor+1:
		to, err = step(lowest.Minor + 1)
		return to, false, err
	case want.Minor+1 < lowest.Minor:
		to, err = step(lowest.Minor - 1)
		return to, true, err
	}
	return s.Spec.EtcdVersion, want.Minor < lowest.Minor, nil
}

// newest returns the newest of the versions with the minor version of one of them.
func newest(available []string, of string) string {
	o, err := parseVersion(of)
	if err != nil {
		return of
	}
	for _, a := range available {
		if v, err := parseVersion(a); err == nil && v.Major == o.Major && v.Minor == o.Minor && v.GT(o) {
			o, of = v, a
		}
	}
	return of
}

// olderThan reports whether a member that is still on 3.5 really runs an older etcd than one.
func (s *situation) olderThan(version string) bool {
	return slices.ContainsFunc(s.voters(), func(m Member) bool {
		return strings.HasPrefix(m.Version, "3.5.") && compareVersions(m.Version, version) < 0
	})
}

// prepareDowngrade has etcd give up what the older version would not understand.
func (s *situation) prepareDowngrade(to string) Decision {
	v, err := parseVersion(to)
	if err != nil {
		return Decision{Note: err.Error()}
	}
	target := fmt.Sprintf("%d.%d.0", v.Major, v.Minor)
	for _, m := range s.voters() {
		if m.Downgrade != target {
			return Decision{Actions: []Action{AllowDowngrade{target}}, Soon: true}
		}
	}
	for _, m := range s.voters() {
		if m.Storage != target {
			return Decision{Note: "waiting for " + m.Name + " to write its data as etcd " + target + " does", Soon: true}
		}
	}
	return Decision{}
}
