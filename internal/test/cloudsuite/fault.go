package cloudsuite

import (
	"slices"
	"strings"

	"kops.local/kops/internal/test/clitest"
	"kops.local/kops/internal/test/turns"
)

// checkThrottling takes a cluster through its life while requests are throttled.
func (w *World) checkThrottling() {
	w.Small()
	w.Proxy.Throttle(10, 1)
	w.Must("update", "cluster", Name, "--yes")
	w.Must("delete", "cluster", Name, "--yes")
	w.Proxy.Throttle(0, 1)
	w.CheckNothingLeft()
}

// lossShare is the percentage of the writes whose answers are lost.
const lossShare = 30

// checkLostAnswers takes a cluster through its life while answers to writes that happened are lost:
// another share of them in each run.
func (w *World) checkLostAnswers() {
	w.whole()
	w.Small()
	seed, _ := turns.PlacesOfTurn(w, 1<<20)
	w.Proxy.Lose(lossShare, uint64(seed))
	w.Must("update", "cluster", Name, "--yes")
	w.Proxy.Lose(0, 0)
	w.checkMade()
	w.Proxy.Lose(lossShare, uint64(seed))
	w.Must("delete", "cluster", Name, "--yes")
	w.Proxy.Lose(0, 0)
	w.CheckNothingLeft()
}

// updateTwice starts an update while another is running, which must be refused.
func (w *World) updateTwice() {
	w.Small()
	reached, release := w.Proxy.Hold(w.Cloud.First)
	defer release(true)
	first := make(chan clitest.Result, 1)
	go func() { first <- w.Run("update", "cluster", Name, "--yes") }()
	select {
	case <-reached:
	case r := <-first:
		w.Fatalf("the first creates no object: %+v", r)
	}
	second := w.Run("update", "cluster", Name, "--yes")
	release(true)
	if r := <-first; r.Code != 0 || second.Code == 0 {
		w.Fatalf("the first must succeed, and the second be refused: %+v, %+v", r, second)
	}
	w.checkContains("the refusal", second.Err, "of tester on here", "update cluster", "kops toolbox lock break")
	w.CheckUnchanged()
	w.Delete()
}

// whole is what a whole update creates, and how many writes it and the deletion after it make.
type whole struct {
	made             []string
	update, deletion int
}

// whole creates and deletes a cluster, unless that was done before.
func (w *World) whole() whole {
	if w.Cloud.whole != nil {
		return *w.Cloud.whole
	}
	var out whole
	w.Small()
	w.Proxy.Reset()
	w.Must("update", "cluster", Name, "--yes")
	out.update, out.made = w.Proxy.Writes(), w.made()
	w.Proxy.Reset()
	w.Must("delete", "cluster", Name, "--yes")
	out.deletion = w.Proxy.Writes()
	w.Cloud.whole = &out
	return out
}

// checkMade checks that an interrupted update has created, in the end, exactly one of each object.
func (w *World) checkMade() {
	w.Helper()
	w.CheckUnchanged()
	got, want := w.made(), w.whole().made
	if !slices.Equal(got, want) {
		w.Errorf("the last run leaves besides\n%s\nand lacks\n%s", strings.Join(clitest.Difference(got, want), "\n"), strings.Join(clitest.Difference(want, got), "\n"))
	}
}

// places returns at which of n writes this run interrupts a command, at most about that many: the
// first, and the distance to the next. Every write is interrupted by some run.
func (w *World) places(n, most int) (first, step int) {
	w.Helper()
	return turns.PlacesOfTurn(w, max(1, n/max(1, most)))
}

// lease is the number of writes that a command makes before it does anything: it takes the lease.
const lease = 1

// checkCuts breaks the connection of an update, and of a deletion, at one write after the other: each
// time the user stops the command, and runs it again. Every second write does not reach the cloud.
func (w *World) checkCuts() {
	n := w.whole()
	w.Small()
	w.interrupt("update", n.update, w.Cloud.Places)
	w.checkMade()
	w.interrupt("delete", n.deletion, w.Cloud.Places)
	w.CheckNothingLeft()
}

// interrupt runs a command that makes n writes, and cuts it at some of them, until it succeeds.
func (w *World) interrupt(command string, n, places int) {
	at, step := w.places(n, places)
	for cuts := range 2 * n {
		r, cut := w.RunCut(lease+at, cuts%2 == 0, command, "cluster", Name, "--yes")
		w.breakLease()
		if r.Code == 0 || command == "delete" && w.isDeleted() {
			w.Logf("%s: %d cuts of %d writes", command, cuts, n)
			return
		}
		if !cut {
			w.Fatalf("kops %s fails after %d cuts:\n%s", command, cuts, r.Err)
		}
		at = step + cuts%3 // a command repeats its first writes, and would not get beyond them
	}
	w.Fatalf("kops %s makes no progress", command)
}

// breakLease releases the lease of an interrupted command, which may not have taken it yet, or have
// deleted it.
func (w *World) breakLease() {
	w.Helper()
	if r := w.Run("toolbox", "lock", "break", "--name", Name, "--yes"); r.Code != 0 && !w.isDeleted() {
		w.Errorf("the lease is not broken:\n%s", r.Err)
	}
}

// isDeleted reports whether the cluster is no longer in the state store: its spec is deleted last.
func (w *World) isDeleted() bool {
	w.Helper()
	return !slices.Contains(w.Inventory(), object+Name+"/config")
}

// checkLeftovers checks that a deletion finds what an interrupted update left.
func (w *World) checkLeftovers() {
	n := w.whole().update
	at, step := w.places(n, w.Cloud.Places/4)
	for ; at <= n; at += step {
		v := New(w.TB, w.Cloud)
		v.Small()
		v.RunCut(at, at%2 == 0, "update", "cluster", Name, "--yes")
		v.breakLease()
		v.Delete()
	}
}

// checkKills kills kops at writes of an update and of a deletion.
func (w *World) checkKills() {
	n := w.whole()
	w.Small()
	at, step := w.places(n.update, 2)
	for ; at <= n.update; at += step {
		w.kill(lease+min(at, step), "update", "cluster", Name, "--yes")
	}
	w.Must("update", "cluster", Name, "--yes") // what was requested last may be created meanwhile
	w.Must("update", "cluster", Name, "--yes")
	w.checkMade()
	at, _ = w.places(n.deletion, 1)
	w.kill(lease+at, "delete", "cluster", Name, "--yes")
	if !w.isDeleted() {
		w.Must("delete", "cluster", Name, "--yes")
	}
	w.CheckNothingLeft()
}

// kill runs kops and kills it at a write, which it may not reach: the number of writes differs a
// little, because a slow command renews its lease more often.
func (w *World) kill(at int, args ...string) {
	w.Helper()
	out, killed, err := w.RunKilled(at, args...)
	if killed == (err == nil) {
		w.Errorf("kops %s, to be killed at write %d: killed %v, %v\n%s", strings.Join(args, " "), at, killed, err, out)
	}
	w.breakLease()
}
