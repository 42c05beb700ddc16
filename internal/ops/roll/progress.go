package roll

import (
	"cmp"
	"fmt"
	"time"
)

// progress continues what was begun with a group's machines.
func (t *turn) progress(g *group) {
	for i := range g.Machines {
		if m := &g.Machines[i]; !m.Phase.IsOver() {
			t.advance(g, m)
		}
		if t.isClosing(g) { // it has just been stopped
			return
		}
	}
	t.replaceTaken(g)
}

// advance moves a machine through its phases as far as is possible now.
func (t *turn) advance(g *group, m *Machine) {
	if t.recordGone(g, m) {
		return
	}
	switch {
	case m.Skipped:
		t.keep(g, m)
	case m.Phase == Restarting:
		t.restart(g, m)
	case m.Effect == Restart && m.isWaiting() && m.Ended.IsZero():
		t.soak(g, m)
	case m.isWaiting():
		t.followSuccessor(g, m)
	case m.Phase == Cordoned:
		t.cordon(g, m)
	case m.Phase == Draining:
		t.drain(g, m)
	}
}

// recordGone records that a machine is gone, whether the rollout removed it or not.
func (t *turn) recordGone(g *group, m *Machine) bool {
	if !m.Ended.IsZero() || g.view == nil || g.views[m.Name] != nil {
		return false
	}
	if m.Phase != Draining || m.Drained.IsZero() {
		m.Trouble = "it disappeared before it was terminated"
	}
	m.Ended, m.Blockers, m.Touched = t.now, nil, false
	g.Creation = Creation{}
	t.withdrawQuestion(m)
	t.setPhase(m, Gone)
	t.setDeadline(m)
	return true
}

// setDeadline sets how long a machine may wait for its successor.
func (t *turn) setDeadline(m *Machine) { m.Deadline = t.now.Add(t.Options.ValidationTimeout) }

// followSuccessor follows the successor of a machine that is detached or gone.
func (t *turn) followSuccessor(g *group, m *Machine) {
	if m.Surged && m.Ended.IsZero() {
		t.detach(g, m)
	}
	switch n := g.newcomersByName[m.Successor]; {
	case g.view == nil: // the group's state is unknown
	case g.isSuccessorHealthy(m) && (m.Ended.IsZero() || t.etcdWell(g)):
		t.finishReplaced(g, m)
		return
	case n == nil && m.Ended.IsZero():
		t.setPhase(m, Surged)
	case n == nil:
		t.setPhase(m, Gone)
	case n.Ready.IsZero():
		t.setPhase(m, Joined)
	default:
		t.setPhase(m, Soaking)
	}
	m.Lacks = g.whyNoSuccessor(m)
	if m.Deadline.IsZero() { // it was well, and no longer is
		t.setDeadline(m)
	}
	if !t.wakeUpAt(m.Deadline) {
		t.stop(g, m, t.lateReason(g, m))
	}
}

// finishReplaced finishes a machine whose successor is ready; one that still serves waits for its
// turn to go.
func (t *turn) finishReplaced(g *group, m *Machine) {
	m.Deadline = time.Time{}
	switch {
	case m.Ended.IsZero() && g.SurgeOnly:
		t.setPhase(m, Kept)
	case m.Ended.IsZero():
		t.setPhase(m, Soaking)
	case !t.wakeUpAt(m.Ended.Add(t.interval(g))):
		t.finish(g, m)
	}
}

// finish marks a machine as rolled.
func (t *turn) finish(g *group, m *Machine) {
	t.setPhase(m, Done)
	m.Deadline = time.Time{}
	g.Proven = g.Proven || m.Effect == Restart || m.Successor != ""
	if t.Options.Interactive && t.hasPending() {
		t.ask(Question{ID: "continue/" + m.Name, Group: g.Name, Machine: m.Name, Choices: []string{Yes, No, Always},
			Text: fmt.Sprintf("machine %s of group %s is done; continue", m.Name, g.Name)})
	}
}

// hasPending reports whether any machine is still pending.
func (t *turn) hasPending() bool {
	for _, g := range t.groups {
		for i := range g.Machines {
			if g.Machines[i].Phase == Pending {
				return true
			}
		}
	}
	return false
}

// lateReason says what a machine has waited for in vain.
func (t *turn) lateReason(g *group, m *Machine) string {
	n := g.newcomersByName[m.Successor]
	switch {
	case g.view == nil:
		return fmt.Sprintf("the platform has not shown group %s, in which %s is replaced, within %v", g.Name, m.Name, t.Options.ValidationTimeout)
	case g.isSuccessorHealthy(m):
		return fmt.Sprintf("%s is gone, and etcd has not recovered after %v", m.Name, t.Options.ValidationTimeout)
	case n == nil:
		return fmt.Sprintf("no machine replaced %s within %v%s", m.Name, t.Options.ValidationTimeout, withReason(m.Lacks))
	}
	why := "its node is not ready"
	if v := g.views[n.Name]; v.Node == "" && !g.nodeless {
		why = "it has not joined the cluster"
	}
	return fmt.Sprintf("%s, which replaces %s, is not healthy after %v: %s", n.Name, m.Name, t.Options.ValidationTimeout, why+withReason(m.Lacks))
}

// whyNoSuccessor says what keeps a machine's successor from appearing or becoming ready; empty if
// nothing does, or it is not known.
func (g *group) whyNoSuccessor(m *Machine) string {
	switch n := g.newcomersByName[m.Successor]; {
	case g.view == nil:
		return ""
	case n == nil:
		return cmp.Or(g.view.Trouble, g.Creation.Trouble)
	case n.Ready.IsZero():
		return noteOf(g.views[n.Name])
	}
	return ""
}

func withReason(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// detach removes a machine from its group's count.
func (t *turn) detach(g *group, m *Machine) {
	if v := g.views[m.Name]; v != nil && !v.Detached {
		t.do(g, &m.Effort, Action{Do: Detach, Machine: m.Name})
	}
}

// cordon keeps new pods and requests away from a machine.
func (t *turn) cordon(g *group, m *Machine) {
	v := g.views[m.Name]
	switch {
	case v == nil:
		return
	case t.hasNode(g, v) && (!v.Cordoned || m.WasCordoned) && !m.hasDone(Cordon) && m.Did != Deregister:
		m.Touched = true
		t.do(g, &m.Effort, Action{Do: Cordon, Machine: m.Name})
	case !t.Options.CloudOnly && !g.Lone && !m.Deregistered && m.Effect == Replace:
		t.do(g, &m.Effort, Action{Do: Deregister, Machine: m.Name})
	default:
		t.setPhase(m, Draining)
		m.Deadline = t.now.Add(t.Options.DrainTimeout)
		t.drain(g, m)
	}
}

// hasNode reports whether a machine has a node that the rollout handles.
func (t *turn) hasNode(g *group, v *MachineView) bool { return !g.nodeless && v.Node != "" }

// hasDone reports whether the last attempt was a given action, and succeeded.
func (e *Effort) hasDone(v Verb) bool { return e.Did == v && e.Attempts == 0 }

// deadDrain limits the drain if a node does not respond: nothing terminates in an orderly way
// there.
const deadDrain = time.Minute

// drain empties a machine, and then terminates or restarts it.
func (t *turn) drain(g *group, m *Machine) {
	v := g.views[m.Name]
	switch {
	case v == nil:
		return
	case m.Drained.IsZero() && !t.hasNode(g, v) && (g.nodeless || t.view.API):
		m.Drained = t.now.Add(-t.Options.PostDrainDelay) // there is nothing to drain
	case m.Drained.IsZero():
		t.empty(g, m, v)
	}
	if m.Drained.IsZero() || t.wakeUpAt(m.Drained.Add(t.Options.PostDrainDelay)) {
		return
	}
	if why := t.whyUnsafe(g, m); why != "" {
		t.waitUntilSafe(g, m, why)
		return
	}
	m.Blockers = nil
	t.withdrawQuestion(m)
	if m.Effect == Restart {
		t.setPhase(m, Restarting)
		t.setDeadline(m)
		t.restart(g, m)
		return
	}
	t.do(g, &m.Effort, Action{Do: Terminate, Machine: m.Name})
}

// whyUnsafe says why a control plane that was taken may not go after all: another has died
// meanwhile. It is empty for any other machine.
func (t *turn) whyUnsafe(g *group, m *Machine) string {
	if g.Stage != ControlPlanes {
		return ""
	}
	return t.controlPlane(g, m)
}

// waitUntilSafe waits until a machine may go, up to the limit.
func (t *turn) waitUntilSafe(g *group, m *Machine, why string) {
	m.Trouble = "it waits for " + why
	if !t.wakeUpAt(m.Deadline) {
		t.stop(g, m, fmt.Sprintf("%s cannot be removed: it waits for %s", m.Name, why))
	}
}

// empty drains a node, and handles a drain that takes too long.
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
	if !t.wakeUpAt(end) {
		t.resolveStuckDrain(g, m, dead)
	}
	if m.Drained.IsZero() && !t.isClosing(g) {
		t.do(g, &m.Effort, Action{Do: Drain, Machine: m.Name, Dead: dead})
	}
}

// resolveStuckDrain decides what to do about a drain that takes too long.
func (t *turn) resolveStuckDrain(g *group, m *Machine, dead bool) {
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

// choices is what the user can do about a drain that takes too long, if there was no one to ask.
const choices = "; remove what blocks its pods, or start again with a longer option:DrainTimeout, with option:FailOnDrainError=false, which terminates it with its pods, or with option:Interactive, which asks"

// restart makes a machine apply its configuration in place.
func (t *turn) restart(g *group, m *Machine) {
	v := g.views[m.Name]
	switch {
	case v != nil && v.Applied:
		t.setPhase(m, Joined)
		t.soak(g, m)
	case !t.wakeUpAt(m.Deadline):
		why := fmt.Sprintf("%s has not applied its configuration after %v", m.Name, t.Options.ValidationTimeout)
		if note := cmp.Or(m.Trouble, noteOf(v)); note != "" {
			why += ": " + note
		}
		t.stop(g, m, why)
	case v == nil:
	case t.whyUnsafe(g, m) != "":
		t.waitUntilSafe(g, m, t.whyUnsafe(g, m))
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

// soak waits until a restarted machine is well again, and releases it.
func (t *turn) soak(g *group, m *Machine) {
	switch {
	case !t.isServing(g, m.Name):
		t.setPhase(m, Joined)
		m.Lacks = noteOf(g.views[m.Name])
	default:
		t.setPhase(m, Soaking)
		if !t.wakeUpAt(m.Since.Add(max(t.Options.Soak, t.interval(g)))) && t.etcdWell(g) && t.isReleased(g, m) {
			t.finish(g, m)
			return
		}
	}
	if !t.wakeUpAt(m.Deadline) {
		t.stop(g, m, fmt.Sprintf("%s is not healthy %v after it was asked to apply its configuration%s", m.Name, t.Options.ValidationTimeout, withReason(m.Lacks)))
	}
}

// isReleased reports whether nothing of the rollout is left on a machine's node.
func (t *turn) isReleased(g *group, m *Machine) bool {
	switch v := g.views[m.Name]; {
	case !m.Touched, g.view != nil && v == nil, t.view.API && v != nil && v.Node == "":
		return true
	}
	t.do(g, &m.Effort, Action{Do: Release, Machine: m.Name, StayCordoned: m.WasCordoned})
	return false
}

// replaceTaken makes the platform replace the machines that were taken from a group, unless it does
// so on its own.
func (t *turn) replaceTaken(g *group) {
	if g.Refills || g.view == nil || g.attached >= g.view.Target {
		return
	}
	for i := range g.Machines {
		m := &g.Machines[i]
		if v := g.views[m.Name]; m.Successor == "" && (m.Phase == Gone || m.Phase == Surged && v != nil && (v.Detached || m.hasDone(Detach))) {
			t.do(g, &g.Creation.Effort, Action{Do: Update})
			return
		}
	}
}
