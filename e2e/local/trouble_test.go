package local

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/platform/local/machine"
)

// rollTime is the time limit of a rollout of a few machines.
const rollTime = 6 * time.Minute

// TestTrouble exposes rollouts to problems under load: their driver is killed at every state of a
// machine, a worker never joins, and a budget allows no eviction. Clients notice nothing.
func TestTrouble(t *testing.T) {
	localtest.SkipUnlessFull(t, "TestRollUnderLoad")
	w := newWorld(t)
	w.create("--node-count", "2", "--node-volume-size", "2") // three of them must fit
	l := w.startLoad()
	begun := time.Now()
	w.killDrivers()
	w.rollWithBrokenSpec()
	w.allowNoEviction()
	w.waitUntilJoined(nodes, 2)
	w.waitUntilValid()
	l.stopAndCheck("rollouts in trouble", begun, longestGap)
	w.upToDate()
	w.checkUnchanged()
	w.delete()
}

// killDrivers has two rollouts, one in place and one by replacement, carried out by a series of killed drivers.
func (w *world) killDrivers() {
	w.Helper()
	before := namesOf(w.machines(""))
	w.must("edit", "cluster", cluster, "--set", "spec.kubelet.maxPods=77")
	w.must("update", "cluster", cluster, "--yes")
	w.rollWithKills("3 machines restarted", roll.Pending, roll.Restarting, roll.Soaking, roll.Done)
	if now := namesOf(w.machines("")); !slices.Equal(now, before) {
		w.Errorf("a change in place has replaced machines: %v, then %v", before, now)
	}
	w.upToDate()

	w.changeBootScript(nodes, "first.sh")
	w.must("update", "cluster", cluster, "--yes")
	w.rollWithKills("2 workers replaced", roll.Pending, roll.Surged, roll.Joined, roll.Soaking, roll.Cordoned, roll.Draining, roll.Gone, roll.Done)
	w.checkAllReplaced(before)
}

// changeBootScript changes a group so that its machines must be replaced: it gives the group another boot
// script, which does nothing. more are additional changes.
func (w *world) changeBootScript(group, script string, more ...string) {
	w.Helper()
	args := []string{"edit", "instancegroup", group, "--name", cluster}
	const at = "spec.additionalUserData[0]."
	for _, set := range append([]string{at + "name=" + script, at + "type=text/x-shellscript", at + "content=#!/bin/true"}, more...) {
		args = append(args, "--set", set)
	}
	w.must(args...)
}

// checkAllReplaced checks that there are two workers, and none of the old ones.
func (w *world) checkAllReplaced(before []string) {
	w.Helper()
	now := namesOf(w.machines(nodes))
	if len(now) != 2 || slices.ContainsFunc(now, func(n string) bool { return slices.Contains(before, n) }) {
		w.Errorf("the workers are %v, and were %v", now, before)
	}
}

// rolloutCommand returns the command that carries out a rollout, without pauses.
func rolloutCommand(more ...string) []string {
	return append([]string{"rolling-update", "cluster", cluster, "--yes", "--node-interval", "3s", "--control-plane-interval", "3s"}, more...)
}

// rollWithKills has a rollout carried out, and kills its driver whenever a machine first reaches one of
// the phases. It returns when the last driver has finished, and checks that one was killed in
// each phase.
func (w *world) rollWithKills(what string, phases ...roll.Phase) {
	w.Helper()
	start, drivers := time.Now(), 0
	killed := map[roll.Phase]string{} // by phase, a machine that was in it when a driver was killed
	for {
		drivers++
		fresh := func(m roll.Machine) bool { return slices.Contains(phases, m.Phase) && killed[m.Phase] == "" }
		r, cut := w.runDriver(rolloutCommand(), fresh, func(kill func()) { kill() })
		if (drivers > 1) != strings.Contains(r.err, "It continues") {
			w.Errorf("driver %d says:\n%s%s", drivers, r.out, r.err)
		}
		if !cut {
			if r.code != 0 {
				w.Fatalf("driver %d: exit %d\n%s%s", drivers, r.code, r.out, r.err)
			}
			break
		}
		for _, m := range w.rolloutMachines() {
			if fresh(m) {
				killed[m.Phase] = m.Name
				w.Logf("driver %d was killed after %s, while %s was %s", drivers, r.took.Round(time.Millisecond), m.Name, m.Phase)
			}
		}
	}
	w.figures.seconds(what+", by drivers that were killed", time.Since(start))
	w.figures[what+", drivers that were killed"] = float64(drivers - 1)
	if hit := slices.Sorted(maps.Keys(killed)); !slices.Equal(hit, slices.Sorted(slices.Values(phases))) {
		w.Errorf("drivers were killed while machines were %v, and not in every one of %v", hit, phases)
	}
}

// runDriver runs a command that drives a rollout until it exits. When a machine reaches the awaited
// state, it calls do, once, which may kill the driver.
func (w *world) runDriver(args []string, at func(roll.Machine) bool, do func(kill func())) (r result, done bool) {
	w.Helper()
	ctx, kill := context.WithCancel(w.Context())
	defer kill()
	ended := make(chan result, 1)
	go func() { ended <- w.run(ctx, rollTime, args...) }()
	for {
		select {
		case r := <-ended:
			return r, done
		case <-time.After(pause / 20):
		}
		if !done && slices.ContainsFunc(w.rolloutMachines(), at) {
			done = true
			do(kill)
		}
	}
}

// rolloutMachines returns the machines of the unfinished rollout, as recorded in the state store.
func (w *world) rolloutMachines() (machines []roll.Machine) {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(w.state(), ".kops", cluster, "rollout.json"))
	if os.IsNotExist(err) {
		return nil
	}
	w.ok(err)
	var s roll.State
	w.ok(json.Unmarshal(text, &s))
	if !s.Ended.IsZero() {
		return nil
	}
	for _, g := range s.Groups {
		machines = append(machines, g.Machines...)
	}
	return machines
}

// rollWithBrokenSpec gives a group a spec with which no machine boots. The rollout stops at the first one,
// and reports the problem; once the spec is corrected, the next one succeeds.
func (w *world) rollWithBrokenSpec() {
	w.Helper()
	before := w.machines(nodes)
	w.changeBootScript(nodes, "second.sh", "spec.fileAssets[0].name=motd", "spec.fileAssets[0].path=/etc/hostname/motd", "spec.fileAssets[0].content=hello")
	w.must("update", "cluster", cluster, "--yes")
	r := w.run(w.Context(), rollTime, rolloutCommand("--validation-timeout", "45s")...)
	w.Logf("a worker that never joins: exit %d\n%s%s", r.code, r.out, r.err)
	w.figures.seconds("a rollout that is stopped by a worker that never joins", r.took)
	broken := slices.DeleteFunc(w.machines(nodes), func(m machine.Machine) bool { return slices.Contains(namesOf(before), m.Name) })
	if len(broken) != 1 || len(w.machines(nodes)) != len(before)+1 {
		w.Fatalf("the workers are %v, and were %v", namesOf(w.machines(nodes)), namesOf(before))
	}
	said := fmt.Sprintf("%s, which replaces ", broken[0].Name)
	for _, want := range []string{"waits until " + broken[0].Name + " is ready: its boot failed in the phase files: ", said, "is not healthy after 45s: it has not joined the cluster: its boot failed in the phase files: ", "/etc/hostname"} {
		if r.code != 1 || !strings.Contains(r.err, want) {
			w.Errorf("exit %d, without %q:\n%s%s", r.code, want, r.out, r.err)
		}
	}
	w.checkServing(before)
	if d := w.run(w.Context(), clusterTime, "doctor", cluster); d.code != 2 || !strings.Contains(d.out, broken[0].Name) || !strings.Contains(d.out, "in the phase files") {
		w.Errorf("kops doctor: exit %d\n%s%s", d.code, d.out, d.err)
	}

	w.must("edit", "instancegroup", nodes, "--name", cluster, "--unset", "spec.fileAssets")
	w.must("update", "cluster", cluster, "--yes")
	r = w.must(rolloutCommand()...)
	w.figures.seconds("a rollout after a worker that never joined", r.took)
	w.checkAllReplaced(namesOf(append(before, broken...)))
	w.upToDate()
}

// checkServing checks that nodes of machines are ready and accept pods.
func (w *world) checkServing(machines []machine.Machine) {
	w.Helper()
	for _, m := range machines {
		if n := w.node(m); n.Spec.Unschedulable || readySince(n).IsZero() {
			w.Errorf("the node of %s does not serve: %+v", m.Name, n.Spec)
		}
	}
}

// allowNoEviction makes the budget of the application allow no eviction. That is reported in advance,
// the rollout waits, and stops with a choice; if the budget is relaxed while it waits, it
// continues.
func (w *world) allowNoEviction() {
	w.Helper()
	before := w.machines(nodes)
	w.kubectl("rollout", "status", "deployment/shop", "--timeout=50s")
	w.budget(`{"minAvailable":4,"maxUnavailable":null}`)
	w.changeBootScript(nodes, "third.sh")
	w.must("update", "cluster", cluster, "--yes")
	r := w.must("rolling-update", "cluster", cluster)
	for _, want := range []string{"These pods will block drains:\n", "  budget default/shop (default/shop-", ": it never allows an eviction: it requires 4 of 4 pods ready\n"} {
		if !strings.Contains(r.out, want) {
			w.Errorf("the preview lacks %q:\n%s", want, r.out)
		}
	}
	r = w.run(w.Context(), rollTime, rolloutCommand("--drain-timeout", "15s")...)
	w.Logf("a budget that allows no eviction: exit %d\n%s%s", r.code, r.out, r.err)
	w.figures.seconds("a rollout that is stopped by a budget", r.took)
	for _, want := range []string{" is not drained after 1", "shop", "--drain-timeout", "--fail-on-drain-error=false", "--interactive"} {
		if r.code != 1 || !strings.Contains(r.err, want) {
			w.Errorf("exit %d, without %q:\n%s%s", r.code, want, r.out, r.err)
		}
	}
	w.checkServing(before)

	blocked := func(m roll.Machine) bool { return m.Phase == roll.Draining && len(m.Blockers) > 0 }
	r, waited := w.runDriver(rolloutCommand(), blocked, func(func()) {
		w.pass(calm)
		now := namesOf(w.machines(nodes))
		for _, m := range before {
			if !slices.Contains(now, m.Name) {
				w.Errorf("while a budget is waited for the workers are %v, and were %v", now, namesOf(before))
			}
		}
		w.budget(`{"minAvailable":3}`)
	})
	if r.code != 0 || !waited {
		w.Errorf("a budget is relaxed while a rollout waits, %t: exit %d\n%s%s", waited, r.code, r.out, r.err)
	}
	w.figures.seconds("a rollout that waits for a budget, and goes on", r.took)
	w.checkAllReplaced(namesOf(before))
}

// budget changes the application's budget.
func (w *world) budget(spec string) {
	w.Helper()
	w.kubectl("patch", "poddisruptionbudget", "shop", "--type=merge", "-p", `{"spec":`+spec+`}`)
}
