package roll

import (
	"fmt"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/api/status"
)

// checker checks that a rollout keeps Step's promises. It counts for itself, from its observations
// of the world, and does not depend on how Step makes its decisions.
type checker struct {
	s                *scene
	pendingQuestions map[string]bool // questions that the user is considering
	groups           map[string]*tally
	// failingVerb is the action that fails for an unlucky machine.
	failingVerb Verb
	excused     map[string]bool // machines whose pods may be lost
	silentSince map[string]time.Time
	cordoned    map[string]bool // nodes that the user had cordoned
	lastStage   Stage
	lastActions []Action // what the last Step has begun
	silence     bool     // the user only answers what the scene prescribes
	// answered is when the user last said to continue, and done when the last machine was finished.
	answered, done time.Time
	etcdDegraded   bool // etcd had lost members when a control plane was done
}

// tally is what the checker knows about a group.
type tally struct {
	role          api.InstanceGroupRole
	plan          Group
	base          int                  // served at the beginning
	sick          map[string]bool      // did not serve at the beginning
	first         map[string]bool      // its machines at the beginning
	detached      map[string]bool      // the detached ones
	takenMachines map[string]bool      // by the rollout
	ready         map[string]time.Time // newcomers, and when they became ready
	restarts      map[string]time.Time // when they were done
	proven        bool
	lastDone      time.Time
	lastGone      time.Time
	gate          time.Time // when the last passed gate began
}

func newChecker(s *scene) *checker {
	c := &checker{s: s, pendingQuestions: map[string]bool{}, groups: map[string]*tally{}, excused: map[string]bool{}, silentSince: map[string]time.Time{}, cordoned: map[string]bool{},
		failingVerb: []Verb{Detach, Cordon, Deregister, Terminate, Release, Drain}[s.rng.IntN(6)]}
	for _, g := range s.d.stored.Groups {
		c.groups[g.Name] = &tally{role: g.Role, plan: g, sick: map[string]bool{}, detached: map[string]bool{}, first: map[string]bool{}, takenMachines: map[string]bool{}, ready: map[string]time.Time{}, restarts: map[string]time.Time{}}
	}
	for _, g := range s.w.groups {
		t := c.groups[g.name]
		for _, m := range g.machines {
			if c.cordoned[m.name] = m.cordoned; t == nil {
				continue
			}
			t.first[m.name] = true
			switch {
			case m.spare:
			case m.detached:
				t.detached[m.name] = true
			case m.ready || g.role == api.RoleBastion || s.d.stored.Options.CloudOnly:
				t.base++
				t.proven = t.proven || !m.old
			default:
				t.sick[m.name] = true
			}
		}
		if t != nil {
			t.base = min(t.base, g.target)
		}
	}
	return c
}

func (c *checker) isFailing(a Action) bool { return a.Do == c.failingVerb }

func isTaking(v Verb) bool {
	switch v {
	case Cordon, Deregister, Drain, Terminate, RestartInPlace:
		return true
	}
	return false
}

// step checks one Step against the promises.
func (c *checker) step(before, next State, v View, actions []Action) error {
	c.lastActions = nil
	if c.follow(before, next, v); c.etcdDegraded {
		return fmt.Errorf("a control plane is done, and etcd is not what it was")
	}
	for _, q := range next.Questions {
		if a := (Action{Group: q.Group, Machine: q.Machine}); q.Choices[0] == Wait && c.phase(next, a) != Draining {
			return fmt.Errorf("asked %q, though %s is %s", q.Text, q.Machine, c.phase(next, a))
		}
	}
	took := map[string][]string{}
	for _, a := range actions {
		t := c.groups[a.Group]
		m := c.s.w.find(a.Machine)
		if m == nil || m.spare || t == nil {
			continue
		}
		if a.Do == Terminate {
			if err := c.checkTerminate(before, next, a, m); err != nil {
				return err
			}
		}
		was := c.phase(before, a)
		// An action begun by a saved state counts as begun, even if it was not carried out yet.
		begins := was == Pending && a.Do != Taint && a.Do != Release || isTaking(a.Do) && was.isWaiting()
		if begins {
			if err := c.checkBegin(before, next, v, a, t); err != nil {
				return fmt.Errorf("%s %s: %w", a.Do, a.Machine, err)
			}
		}
		if a.Do == Detach {
			if err := c.checkSurge(a, t); err != nil {
				return err
			}
		}
		if isTaking(a.Do) && !t.takenMachines[a.Machine] {
			t.takenMachines[a.Machine] = true
			c.lastActions = append(c.lastActions, a)
			if begins && m.ready && m.running {
				took[a.Group] = append(took[a.Group], a.Machine)
			}
		}
	}
	for group, names := range took {
		if err := c.budget(v, group, names); err != nil {
			return fmt.Errorf("%v of %s: %w", names, group, err)
		}
	}
	return c.controlPlanes(v, actions)
}

// recordNotBegun records that what the last Step requested was not begun.
func (c *checker) recordNotBegun() {
	for _, a := range c.lastActions {
		delete(c.groups[a.Group].takenMachines, a.Machine)
	}
}

func (c *checker) phase(s State, a Action) Phase {
	for _, g := range s.Groups {
		for _, m := range g.Machines {
			if g.Name == a.Group && m.Name == a.Machine {
				return m.Phase
			}
		}
	}
	return ""
}

// follow records what the view shows: since when machines are ready, and which are done.
func (c *checker) follow(before, next State, v View) {
	for _, g := range v.Groups {
		t := c.groups[g.Name]
		if t == nil {
			continue
		}
		nodeless := t.role == api.RoleBastion || before.Options.CloudOnly
		there := map[string]bool{}
		for _, m := range g.Machines {
			there[m.Name] = true
			switch {
			case m.Ready || !v.API:
				delete(c.silentSince, m.Name)
			case c.silentSince[m.Name].IsZero():
				c.silentSince[m.Name] = v.Now
			case v.Now.Sub(c.silentSince[m.Name]) >= time.Minute:
				c.excused[m.Name] = true
			}
			if t.first[m.Name] {
				continue
			}
			switch ready := m.Running && (nodeless || m.Ready && v.API); {
			case !ready:
				delete(t.ready, m.Name)
			case t.ready[m.Name].IsZero():
				t.ready[m.Name] = v.Now
			}
		}
		for name := range t.takenMachines {
			if !there[name] {
				delete(t.takenMachines, name)
				t.lastGone = v.Now
			}
		}
		for name := range t.ready {
			if !there[name] {
				delete(t.ready, name)
			} else if v.Now.Sub(t.ready[name]) >= before.Options.Soak {
				t.proven = true
			}
		}
	}
	for i, g := range next.Groups {
		for j, m := range g.Machines {
			if was := before.Groups[i].Machines[j].Phase; was != m.Phase && m.Phase.IsOver() && !m.Spare {
				t := c.groups[g.Name]
				delete(t.takenMachines, m.Name)
				if m.Phase == Done && g.Stage == ControlPlanes && !next.Aborted && next.Stopped == nil && !before.Options.CloudOnly {
					c.etcdDegraded = c.etcdDegraded || !isEtcdHealthy(before, v)
				}
				if m.Phase == Done {
					c.done = v.Now
					t.lastDone = v.Now
					t.proven = true
				}
			}
		}
	}
	for _, w := range v.Requests {
		if w.Want == Reply && (w.Answer == Yes || w.Answer == Always) {
			c.answered = v.Now
		}
	}
	for _, r := range v.Results {
		if t := c.groups[r.Group]; r.Do == CheckGates && r.Trouble == "" && t != nil && r.Round > 0 {
			t.gate = v.Now
		}
	}
}

// isEtcdHealthy reports whether etcd has as many healthy voters as before.
func isEtcdHealthy(s State, v View) bool {
	for _, b := range s.Etcd {
		healthy := 0
		for _, e := range v.Etcd {
			for _, m := range e.Members {
				if e.Name == b.Name && m.Healthy {
					healthy++
				}
			}
		}
		if healthy < b.Voters-b.Unwell {
			return false
		}
	}
	return true
}

// budget checks that enough machines serve, not counting those just taken.
func (c *checker) budget(v View, group string, names []string) error {
	t := c.groups[group]
	missing := max(t.plan.Unavailable, 0)
	for _, m := range t.plan.Machines {
		if m.Effect == Restart && contains(names, m.Name) {
			missing = max(1, t.plan.Unavailable, t.plan.Surge)
		}
	}
	nodeless := t.role == api.RoleBastion || c.s.d.stored.Options.CloudOnly
	serving, target := 0, 0
	for _, g := range v.Groups {
		if g.Name != group {
			continue
		}
		target = g.Target
		for _, m := range g.Machines {
			ready := m.Running && !m.Spare && (nodeless || m.Ready && v.API)
			if !t.first[m.Name] {
				since := t.ready[m.Name]
				ready = ready && !since.IsZero() && v.Now.Sub(since) >= c.s.d.stored.Options.Soak
			}
			if ready && !t.takenMachines[m.Name] {
				serving++
			}
		}
	}
	if need := min(t.base, target) - missing; serving < need {
		return fmt.Errorf("%d machines serve, and %d have to", serving, need)
	}
	return nil
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// checkBegin checks whether a machine may be begun.
func (c *checker) checkBegin(before, next State, v View, a Action, t *tally) error {
	o := next.Options
	switch {
	case next.Paused:
		return fmt.Errorf("begun while paused")
	case next.Aborted:
		return fmt.Errorf("begun after the rollout was aborted")
	case t.plan.Stage < c.lastStage:
		return fmt.Errorf("begun after a later stage")
	case t.plan.Stage != Bastions && !o.CloudOnly && o.ValidateCount > 0 && o.FailOnValidateError && c.fails(before, v, a.Group):
		return fmt.Errorf("begun while the cluster fails anew: %v", v.Failures)
	case o.Interactive && c.answered.Before(c.done):
		return fmt.Errorf("begun before the user was asked")
	case len(o.Gates) > 0 && (t.gate.IsZero() || t.gate.Before(t.lastDone)):
		return fmt.Errorf("begun before the gates were passed")
	}
	if other := c.otherAway(v, a); t.role == api.RoleControlPlane && !o.CloudOnly && other != "" {
		return fmt.Errorf("begun while control plane %s does not serve", other)
	}
	c.lastStage = t.plan.Stage
	for i, g := range next.Groups {
		if g.Stage < t.plan.Stage && g.Ended.IsZero() {
			return fmt.Errorf("begun before group %s is over", g.Name)
		}
		if g.Name == a.Group && before.Groups[i].Stopped != nil && g.Stopped != nil {
			return fmt.Errorf("begun after the group was stopped")
		}
		if g.Name == a.Group {
			return c.checkOneAtATime(before, next, v, t, g, a)
		}
	}
	return nil
}

// otherAway names a control plane that does not serve but did at the beginning, if the one being
// taken serves.
func (c *checker) otherAway(v View, a Action) string {
	other, serves := "", false
	for _, g := range v.Groups {
		t := c.groups[g.Name]
		if t == nil || t.role != api.RoleControlPlane {
			continue
		}
		for _, m := range g.Machines {
			switch {
			case m.Name == a.Machine:
				serves = m.Ready
			case !m.Ready && !t.sick[m.Name]:
				other = m.Name
			}
		}
	}
	if !serves {
		return ""
	}
	return other
}

// checkOneAtATime limits canaries, control planes and interactive rollouts to one machine at a time.
func (c *checker) checkOneAtATime(before, next State, v View, t *tally, g Group, a Action) error {
	inProgress, self := 0, c.s.w.find(a.Machine)
	for _, m := range g.Machines {
		waits := m.Surged && m.Ended.IsZero() && m.isWaiting() && (t.detached[m.Name] || !self.ready)
		if m.Name != a.Machine && !m.Spare && m.Phase != Pending && !m.Phase.IsOver() && !waits {
			inProgress++
		}
	}
	if next.Options.Canary && !t.proven && inProgress > 0 {
		return fmt.Errorf("begun before the first of its group was well, %d under way", inProgress)
	}
	if wait := c.interval(next, g); g.Stage == ControlPlanes && !t.lastGone.IsZero() && v.Now.Sub(t.lastGone) < wait {
		return fmt.Errorf("begun %v after the one before was gone", v.Now.Sub(t.lastGone))
	}
	return nil
}

func (c *checker) interval(s State, g Group) time.Duration { return s.Options.ControlPlaneInterval }

// fails reports whether there is a new failure, of the cluster or of the group, that nothing
// excuses.
func (c *checker) fails(s State, v View, group string) bool {
	for _, f := range v.Failures {
		old := f.Kind == status.KindGroup || c.isExcused(f)
		for _, b := range s.Baseline {
			old = old || b.Name == f.Name
		}
		if !old && (f.Group == "" || f.Group == group || contains(s.ControlPlanes, f.Group)) {
			return true
		}
	}
	return false
}

// isExcused reports whether a failure belongs to a machine that is being rolled, or is new.
func (c *checker) isExcused(f status.Failure) bool {
	for _, g := range c.s.w.groups {
		for _, m := range g.machines {
			if t := c.groups[g.name]; t != nil && (f.Name == m.name || f.Name == m.node) && (t.takenMachines[m.name] || m.detached || !t.first[m.name]) {
				return true
			}
		}
	}
	return false
}

// checkSurge limits a group to its surge.
func (c *checker) checkSurge(a Action, t *tally) error {
	n := 0
	for _, g := range c.s.w.groups {
		for _, m := range g.machines {
			if g.name == a.Group && (m.detached || m.name == a.Machine) {
				n++
			}
		}
	}
	if n > max(t.plan.Surge, len(t.detached)) {
		return fmt.Errorf("detach %s: %d machines are detached, and %d may be", a.Machine, n, t.plan.Surge)
	}
	return nil
}

// checkTerminate checks that a machine has been drained, or that its pods may be lost.
func (c *checker) checkTerminate(before, next State, a Action, m *wmachine) error {
	t := c.groups[a.Group]
	if m.pods == 0 || m.node == "" || !m.ready || t.role == api.RoleBastion || next.Options.CloudOnly || !next.Options.FailOnDrainError || c.excused[a.Machine] {
		return nil
	}
	return fmt.Errorf("terminate %s, which has %d pods", a.Machine, m.pods)
}

// controlPlanes limits control planes to one at a time, and checks etcd's majority.
func (c *checker) controlPlanes(v View, actions []Action) error {
	away := 0
	for _, t := range c.groups {
		if t.role == api.RoleControlPlane {
			away += len(t.takenMachines)
		}
	}
	if away > 1 {
		return fmt.Errorf("%d control planes are away at once", away)
	}
	for _, a := range actions {
		if t := c.groups[a.Group]; (a.Do != Terminate && a.Do != RestartInPlace) || t.role != api.RoleControlPlane || c.s.d.stored.Options.CloudOnly {
			continue
		}
		for _, e := range v.Etcd {
			if err := c.majority(e, a.Machine); err != nil {
				return err
			}
		}
	}
	return nil
}

// majority checks that an etcd cluster has a majority without a machine.
func (c *checker) majority(e EtcdView, machine string) error {
	voters, healthy, mine := 0, 0, false
	for _, b := range c.s.d.stored.Etcd {
		if b.Name == e.Name {
			voters = b.Voters
		}
	}
	for _, m := range e.Members {
		if m.Healthy {
			healthy++
			mine = mine || m.Machine == machine
		}
	}
	if mine && voters > 2 && healthy-1 < voters/2+1 {
		return fmt.Errorf("etcd %s loses its majority with %s: %d of %d are left", e.Name, machine, healthy-1, voters)
	}
	return nil
}

// checkEnd checks what is left when a rollout has ended.
func (c *checker) checkEnd(s State) error {
	for _, g := range c.s.w.groups {
		for _, m := range g.machines {
			if (m.cordoned != c.cordoned[m.name] || m.tainted) && c.failingVerb != Release {
				return fmt.Errorf("it has ended, and %s is cordoned %v, tainted %v", m.name, m.cordoned, m.tainted)
			}
		}
	}
	if end := c.s.outcome(); c.s.calm && !c.silence && end != "done" {
		return fmt.Errorf("it ended %s, though nothing was in its way", end)
	} else if end != "done" {
		return nil
	}
	for _, g := range c.s.w.groups {
		for _, m := range g.machines {
			if c.s.calm && !m.spare && !m.running || c.s.calm && m.node == "" && g.role != api.RoleBastion && !m.spare && !s.Options.CloudOnly {
				return fmt.Errorf("it is done, and %s is not there yet", m.name)
			}
		}
		if c.s.calm && g.countAttached() < g.target {
			return fmt.Errorf("it is done, and %s has %d machines of %d", g.name, g.countAttached(), g.target)
		}
	}
	for _, g := range s.Groups {
		for _, m := range g.Machines {
			if w := c.s.w.find(m.Name); w != nil && w.old && !g.SurgeOnly {
				return fmt.Errorf("it is done, and %s is what it was", m.Name)
			}
		}
	}
	return nil
}
