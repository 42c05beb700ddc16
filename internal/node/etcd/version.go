package etcd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// lastBefore36 is the first 3.5 release from which a member may be upgraded to
// 3.6: earlier ones keep a promoted learner as a learner in the part of the data
// that 3.6 reads (etcd's guide "Upgrade etcd from v3.5 to v3.6").
const lastBefore36 = "3.5.26"

// parseVersion parses 3.6.12, with or without a leading v.
func parseVersion(s string) (semver.Version, error) {
	return semver.Parse(strings.TrimPrefix(s, "v"))
}

// compareVersions orders versions; invalid versions sort first.
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

// Pick returns the available version that serves a wanted one: itself, or else the
// newest of its minor version that is not older.
func Pick(available []string, want string) (string, bool) {
	if slices.Contains(available, want) {
		return want, true
	}
	w, err := parseVersion(want)
	if err != nil {
		return "", false
	}
	best := newest(available, w.Major, w.Minor)
	if compareVersions(best, want) < 0 {
		return "", false
	}
	return best, true
}

// version changes the version of the members, one after another, etcd's leader last.
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
			return Decision{Note: fmt.Sprintf("machine %s has no etcd %s", p.ID, to)}
		} else if v != p.State.Version {
			todo = append(todo, m)
		}
	}
	voters, target := s.voters(), minorOf(to)
	switch {
	case slices.ContainsFunc(voters, func(m Member) bool { return m.Downgrade != "" && (len(todo) == 0 || m.Downgrade != target) }):
		return Decision{Actions: []Action{AllowDowngrade{}}, Soon: true} // cancels a downgrade that is not wanted, or is complete
	case len(todo) == 0:
		return Decision{}
	case len(s.Members) != s.Spec.MemberCount || len(healthyMembers(voters)) != len(s.Members) || len(s.seatedPeers()) != len(s.Members) || s.isQuarantined():
		return Decision{Note: fmt.Sprintf("etcd %s must wait until there are %d members, all of them healthy", to, s.Spec.MemberCount)}
	}
	if first := s.ensureBackup("before etcd changes to " + to); first != nil {
		return Decision{Actions: first}
	}
	if down {
		if d := s.prepareDowngrade(target); len(d.Actions) > 0 || d.Note != "" {
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
	change := runAgain(p)
	change.Version, _ = Pick(p.Versions, to)
	if compareVersions(minorOf(change.Version), minorOf(p.State.Version)) > 0 { // which may not understand what newer ones have logged
		change.Snapshot = next.Index
	}
	return Decision{Soon: true, Actions: []Action{change}}
}

func rankLeader(m Member) int {
	if m.Leader {
		return 1
	}
	return 0
}

// hop returns the version that the members go to next on the way to the wanted one,
// and whether that is the first step down. etcd moves up and down by one minor
// version at a time, and no member continues before all have reached it: the way up
// starts at the lowest running version, and the way down at the highest.
func (s *situation) hop() (to string, down bool, err error) {
	want, err := parseVersion(s.Spec.EtcdVersion)
	if err != nil {
		return "", false, err
	}
	var lowest, highest semver.Version
	var available []string
	for i, p := range s.seatedPeers() {
		v, err := parseVersion(p.State.Version)
		if err != nil {
			return "", false, fmt.Errorf("machine %s runs etcd %q: %w", p.ID, p.State.Version, err)
		}
		if i == 0 || v.LT(lowest) {
			lowest = v
		}
		if i == 0 || v.GT(highest) {
			highest = v
		}
		available = append(available, p.Versions...)
	}
	minor, least := want.Minor, ""
	switch {
	case want.Major != lowest.Major:
		return "", false, fmt.Errorf("etcd cannot change from %s to %s in place", lowest, want)
	case want.Minor > lowest.Minor && lowest.Minor == 5 && s.olderThan(lastBefore36):
		minor, least = lowest.Minor, lastBefore36
	case want.Minor > lowest.Minor+1:
		minor = lowest.Minor + 1
	case want.Minor+1 < highest.Minor:
		minor = highest.Minor - 1
	}
	if minor == want.Minor {
		return s.Spec.EtcdVersion, minor < lowest.Minor, nil
	}
	to = newest(available, want.Major, minor)
	switch {
	case to == "":
		err = fmt.Errorf("etcd cannot change from %s to %s at once, and no etcd %d.%d is available", lowest, want, want.Major, minor)
	case least != "" && compareVersions(to, least) < 0:
		err = fmt.Errorf("etcd 3.6 must follow %s or later, and no such etcd is available", least)
	}
	return to, minor < lowest.Minor, err
}

// newest returns the newest of the versions with a minor version, or "".
func newest(available []string, major, minor uint64) string {
	best := ""
	for _, a := range available {
		v, err := parseVersion(a)
		if err == nil && v.Major == major && v.Minor == minor && (best == "" || compareVersions(a, best) > 0) {
			best = a
		}
	}
	return best
}

// olderThan reports whether a member that is still on 3.5 actually runs an etcd older than version.
func (s *situation) olderThan(version string) bool {
	return slices.ContainsFunc(s.voters(), func(m Member) bool {
		return strings.HasPrefix(m.Version, "3.5.") && compareVersions(m.Version, version) < 0
	})
}

// prepareDowngrade makes etcd remove what the older version would not understand.
func (s *situation) prepareDowngrade(target string) Decision {
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

// minorOf returns a minor version as etcd names it, such as 3.6.0 for each of its patch releases.
func minorOf(version string) string {
	v, err := parseVersion(version)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d.%d.0", v.Major, v.Minor)
}
