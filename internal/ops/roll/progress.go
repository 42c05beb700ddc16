package roll

import (
	"cmp"
	"fmt"
	"time"
)

// progress carries on what was begun of a group's machines.
func (t *turn) progress(g *group) {
	for i := range g.Machines {
		if m := &g.Machines[i]; !m.Phase.Over() {
			t.advance(g, m)
		}
		if t.closing(g) { // it has just been stopped
			return
		}
	}
	t.makeUp(g)
}

// advance brings a machine on, as far as it goes by itself now.
func (t *turn) advance(g *group, m *Machine) {
	if t.vanished(g, m) {
		return
	}
	switch {
	case m.Skipped:
		t.keep(g, m)
	case m.Phase == Restarting:
		t.restart(g, m)
	case m.Effect == Restart && m.waits() && m.Ended.IsZero():
		t.soak(g, m)
	case m.waits():
		t.succeed(g, m)
	case m.Phase == Cordoned:
		t.cordon(g, m)
	case m.Phase == Draining:
		t.drain(g, m)
	}
}

// vanished notes that a machine is gone, by our doing or by itself.
func (t *turn) vanished(g *group, m *Machine) bool {
	if !m.Ended.IsZero() || g.view == nil || g.seen[m.Name] != nil {
		return false
	}
	if m.Phase != Draining || m.Drained.IsZero() {
		m.Trouble = "it disappeared before it was terminated"
	}
	m.Ended, m.Blockers, m.Touched = t.now, nil, false
	g.Making = Making{}
	t.drop(m)
	t.to(m, Gone)
	t.await(m)
	return true
}

// await sets how long a machine may wait for its successor.
func (t *turn) await(m *Machine) { m.Deadline = t.now.Add(t.Options.ValidationTimeout) }

// succeed follows the successor of a machine that is detached, or gone.
func (t *turn) succeed(g *group, m *Machine) {
	if m.Surged && m.Ended.IsZero() {
		t.detach(g, m)
	}
	switch n := g.by[m.Successor]; {
	case g.view == nil: // nobody knows
	case g.well(m) && (m.Ended.IsZero() || t.etcdWell(g)):
		t.succeeds(g, m)
		return
	case n == nil && m.Ended.IsZero():
		t.to(m, Surged)
	case n == nil:
		t.to(m, Gone)
	case n.Ready.IsZero():
		t.to(m, Joined)
	default:
		t.to(m, Soaking)
	}
	m.Lacks = g.lacks(m)
	if m.Deadline.IsZero() { // it was well, and is not any more
		t.await(m)
	}
	if !t.wake(m.Deadline) {
		t.stop(g, m, t.lateness(g, m))
	}
}

// succeeds ends a machine whose place is taken; one that still serves waits for its turn to go.
func (t *turn) succeeds(g *group, m *Machine) {
	m.Deadline = time.Time{}
	switch {
	case m.Ended.IsZero() && g.SurgeOnly:
		t.to(m, Kept)
	case m.Ended.IsZero():
		t.to(m, Soaking)
	case !t.wake(m.Ended.Add(t.interval(g))):
		t.finish(g, m)
	}
}

// finish ends a machine that was rolled.
func (t *turn) finish(g *group, m *Machine) {
	t.to(m, Done)
	m.Deadline = time.Time{}
	g.Proven = g.Proven || m.Effect == Restart || m.Successor != ""
	if t.Options.Interactive && t.remains() {
		t.ask(Question{ID: "continue/" + m.Name, Group: g.Name, Machine: m.Name, Choices: []string{Yes, No, Always},
			Text: fmt.Sprintf("machine %s of group %s is done; continue", m.Name, g.Name)})
	}
}

// remains reports whether a machine is still to be begun.
func (t *turn) remains() bool {
	for _, g := range t.groups {
		for i := range g.Machines {
			if g.Machines[i].Phase == Pending {
				return true
			}
		}
	}
	return false
}

// lateness says what a machine waited for in vain.
func (t *turn) lateness(g *group, m *Machine) string {
	n := g.by[m.Successor]
	switch {
	case g.view == nil:
		return fmt.Sprintf("the platform has not shown group %s, in which %s is replaced, within %v", g.Name, m.Name, t.Options.ValidationTimeout)
	case g.well(m):
		return fmt.Sprintf("%s is gone, and etcd has not recovered after %v", m.Name, t.Options.ValidationTimeout)
	case n == nil:
		return fmt.Sprintf("no machine replaced %s within %v%s", m.Name, t.Options.ValidationTimeout, because(m.Lacks))
	}
	why := "its node is not ready"
	if v := g.seen[n.Name]; v.Node == "" && !g.nodeless {
		why = "it has not joined the cluster"
	}
	return fmt.Sprintf("%s, which replaces %s, is not healthy after %v: %s", n.Name, m.Name, t.Options.ValidationTimeout, why+because(m.Lacks))
}

// lacks says what keeps a machine's successor from being there, or from being ready; empty
// where nothing does, or nobody tells.
func (g *group) lacks(m *Machine) string {
	switch n := g.by[m.Successor]; {
	case g.view == nil:
		return ""
	case n == nil:
		return cmp.Or(g.view.Trouble, g.Making.Trouble)
	case n.Ready.IsZero():
		return noteOf(g.seen[n.Name])
	}
	return ""
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// detach has the group count a machine no longer.
func (t *turn) detach(g *group, m *Machine) {
	if v := g.seen[m.Name]; v != nil && !v.Detached {
		t.do(g, &m.Effort, Action{Do: Detach, Machine: m.Name})
	}
}

// cordon keeps new pods and requests from a machine.
func (t *turn) cordon(g *group, m *Machine) {
	v := g.seen[m.Name]
	switch {
	case v == nil:
		return
	case t.hasNode(g, v) && (!v.Cordoned || m.WasCordoned) && !m.done(Cordon) && m.Did != Deregister:
		m.Touched = true
		t.do(g, &m.Effort, Action{Do: Cordon, Machine: m.Name})
	case !t.Options.CloudOnly && !g.Lone && !m.Deregistered && m.Effect == Replace:
		t.do(g, &m.Effort, Action{Do: Deregister, Machine: m.Name})
	default:
		t.to(m, Draining)
		m.Deadline = t.now.Add(t.Options.DrainTimeout)
		t.drain(g, m)
	}
}

// hasNode reports whether a machine has a node that the rollout handles.
func (t *turn) hasNode(g *group, v *MachineView) bool { return !g.nodeless && v.Node != "" }

// done reports that the last attempt was this, and succeeded.
func (e *Effort) done(v Verb) bool { return e.Did == v && e.Attempts == 0 }

// deadDrain bounds the drain while a node does not answer: nothing ends there in an orderly way.
const deadDrain = time.Minute

// drain empties a machine, and then ends it, or restarts it.
func (t *turn) drain(g *group, m *Machine) {
	v := g.seen[m.Name]
	switch {
	case v == nil:
		return
	case m.Drained.IsZero() && !t.hasNode(g, v) && (g.nodeless || t.view.API):
		m.Drained = t.now.Add(-t.Options.PostDrainDelay) // there is nothing to drain
	case m.Drained.IsZero():
		t.empty(g, m, v)
	}
	if m.Drained.IsZero() || t.wake(m.Drained.Add(t.Options.PostDrainDelay)) {
		return
	}
	if why := t.endangers(g, m); why != "" {
		t.hold(g, m, why)
		return
	}
	m.Blockers = nil
	t.drop(m)
	if m.Effect == Restart {
		t.to(m, Restarting)
		t.await(m)
		t.restart(g, m)
		return
	}
	t.do(g, &m.Effort, Action{Do: Terminate, Machine: m.Name})
}

// endangers says why a control plane that was taken may not go after all: another has died
// meanwhile. Empty for any other machine.
func (t *turn) endangers(g *group, m *Machine) string {
	if g.Stage != ControlPlanes {
		return ""
	}
	return t.controlPlane(g, m)
}

// hold waits until a machine may go, as long as is allowed.
func (t *turn) hold(g *group, m *Machine, why string) {
	m.Trouble = "it waits for " + why
	if !t.wake(m.Deadline) {
		t.stop(g, m, fmt.Sprintf("%s cannot be removed: it waits for %s", m.Name, why))
	}
}

// empty drains a node, and says what to do when that takes too long.
func (t *turn) empty(g *group, m *Machine, v *MachineView) {
	dead, end := t.view.API && !v.Ready, m.Deadline
	m.Blockers = v.Blockers
	switch {
	case !dead:
		m.Silent = time.Time{}
	case m.Silent.IsZero():
		m.Silent = t.now
	}
	if dead {
		end = m.Silent.Add(deadDrain)
	}
	if !t.wake(end) {
		t.stuck(g, m, dead)
	}
	if m.Drained.IsZero() && !t.closing(g) {
		t.do(g, &m.Effort, Action{Do: Drain, Machine: m.Name, Dead: dead})
	}
}

// stuck decides what becomes of a drain that takes too long.
func (t *turn) stuck(g *group, m *Machine, dead bool) {
	why := fmt.Sprintf("%s is not drained after %v", m.Name, t.now.Sub(m.Since).Round(time.Second))
	if len(m.Blockers) > 0 {
		why += ": " + m.Blockers[0]
	} else if m.Trouble != "" {
		why += ": " + m.Trouble
	}
	switch {
	case dead || !t.Options.FailOnDrainError:
		m.Drained, m.Trouble = t.now, why
	case t.Options.Ask || t.Options.Interactive:
		t.ask(Question{ID: "drain/" + m.Name, Group: g.Name, Machine: m.Name, Choices: []string{Wait, Force, Skip, Halt}, Text: why})
	default:
		t.stop(g, m, why+choices)
	}
}

// choices are what the user can do about a drain that takes too long, where nobody could be asked.
const choices = "; remove what blocks its pods, or start again with a longer option:DrainTimeout, with option:FailOnDrainError=false, which terminates it with its pods, or with option:Interactive, which asks"

// restart has a machine take up its configuration in place.
func (t *turn) restart(g *group, m *Machine) {
	v := g.seen[m.Name]
	switch {
	case v != nil && v.Applied:
		t.to(m, Joined)
		t.soak(g, m)
	case !t.wake(m.Deadline):
		why := fmt.Sprintf("%s has not applied its configuration after %v", m.Name, t.Options.ValidationTimeout)
		if note := cmp.Or(m.Trouble, noteOf(v)); note != "" {
			why += ": " + note
		}
		t.stop(g, m, why)
	case v == nil:
	case t.endangers(g, m) != "":
		t.hold(g, m, t.endangers(g, m))
	default:
		t.do(g, &m.Effort, Action{Do: RestartInPlace, Machine: m.Name})
	}
}

func noteOf(v *MachineView) string {
	if v == nil {
		return ""
	}
	return v.Note
}

// soak waits until a machine that was restarted is well again, and gives it back.
func (t *turn) soak(g *group, m *Machine) {
	switch {
	case !t.serves(g, m.Name):
		t.to(m, Joined)
		m.Lacks = noteOf(g.seen[m.Name])
	default:
		t.to(m, Soaking)
		if !t.wake(m.Since.Add(max(t.Options.Soak, t.interval(g)))) && t.etcdWell(g) && t.released(g, m) {
			t.finish(g, m)
			return
		}
	}
	if !t.wake(m.Deadline) {
		t.stop(g, m, fmt.Sprintf("%s is not healthy %v after it was asked to apply its configuration%s", m.Name, t.Options.ValidationTimeout, because(m.Lacks)))
	}
}

// released reports that nothing of the rollout is left on a machine's node.
func (t *turn) released(g *group, m *Machine) bool {
	switch v := g.seen[m.Name]; {
	case !m.Touched, g.view != nil && v == nil, t.view.API && v != nil && v.Node == "":
		return true
	}
	t.do(g, &m.Effort, Action{Do: Release, Machine: m.Name, StayCordoned: m.WasCordoned})
	return false
}

// makeUp has the platform make the machines that were taken from a group, where it does not by itself.
func (t *turn) makeUp(g *group) {
	if g.Refills || g.view == nil || g.attached >= g.view.Target {
		return
	}
	for i := range g.Machines {
		m := &g.Machines[i]
		if v := g.seen[m.Name]; m.Successor == "" && (m.Phase == Gone || m.Phase == Surged && v != nil && (v.Detached || m.done(Detach))) {
			t.do(g, &g.Making.Effort, Action{Do: Update})
			return
		}
	}
}
