package balance

import (
	"slices"
	"time"
)

// The policy is pure: backend states and the time determine where new connections go
// and what happens to open ones.
const (
	// slowAfter is how long a backend may owe an answer before others are preferred.
	// A new connection would wait just as the check does.
	slowAfter = 300 * time.Millisecond
	// stallAfter is how long a backend may owe an answer before it counts as silent.
	stallAfter = 800 * time.Millisecond
	// cutAfter is how long a backend may owe an answer before its connections are cut, so that
	// its clients reconnect elsewhere, provided that the others have outpaced it: an HTTP/2
	// client notices by itself only after 45 s (client-go: a ping after 30 s, which may take
	// 15 s).
	cutAfter = 400 * time.Millisecond
	// recentCount is how many later checks each of the others must have answered meanwhile. On an overloaded
	// host they answer late, too, so that counting takes longer.
	recentCount = 3
	// A backend that answers within falseAlarm of being outpaced had not stalled. From then on
	// it may owe an answer twice as long, up to maxPatience doublings, and each calmTime
	// without a false alarm undoes one doubling. If two backends have doublings, the host is
	// slow, and all backends get more time.
	falseAlarm  = 2 * time.Second
	maxPatience = 2
	calmTime    = time.Minute
	// probation is the minimum time for which a cut counts against the next one, and how long
	// a backend that was cut must be silent before it counts as down.
	probation = 5 * time.Second
	// proof is how long a backend that was not ready must have been ready without a break
	// before it is preferred again.
	proof = time.Second
	// drainTime is how long connections of a backend that is being drained may live on. An API
	// server that shuts down answers its open requests within this time, and one that has lost
	// its etcd answers none: no client should wait for that.
	drainTime = 2 * time.Second
)

// status is the last result known for a backend.
type status int

const (
	unchecked   status = iota // nothing yet
	unreachable               // there is no such machine: its connections are dead, too
	closed                    // the machine refuses connections: a process that exited has lost its connections already
	notReady                  // it answers that it must get no more connections
	ready                     // it answers that it is ready
)

// record is the known state of a backend.
type record struct {
	status status
	// since is when the current status began; zero: it was the first one.
	since time.Time
	// owingSince is since when the backend has owed an answer; zero: it owes none. A late answer
	// that it is not ready does not reset this: whatever its clients wait for stalls as well.
	owingSince time.Time
	// recentChecks is when the checks that it answered last were sent, the oldest first.
	recentChecks [recentCount]time.Time
	// outpacedSince is since when others have outpaced it while it owes an answer; zero: they have not.
	outpacedSince time.Time
	// lastCut is when its connections were last cut because of that; zero: never.
	lastCut time.Time
	// patience is how many times the backend's limit for owing an answer is doubled, and
	// patienceChanged is when that last changed.
	patience        int
	patienceChanged time.Time
	// drainingSince is since when its connections have been draining; zero: they are not.
	drainingSince time.Time
	// leaving is true if it should no longer serve, whatever it answers itself.
	leaving bool
}

// startCheck records that a check is in progress.
func (r record) startCheck(now time.Time) record {
	if r.owingSince.IsZero() {
		r.owingSince = now
	}
	return r
}

// finishCheck records the answer to a check. A late answer that it is not ready does not count: the backend
// waited in vain for what it needs, as its clients do, and it still owes an answer.
func (r record) finishCheck(w status, now time.Time) record {
	if w == notReady && r.owedFor(now) >= slowAfter && !r.isSilent(now) {
		return r
	}
	copy(r.recentChecks[:], r.recentChecks[1:])
	r.recentChecks[recentCount-1] = r.owingSince
	settled := w != notReady || !r.isSilent(now)
	if w == ready && !r.outpacedSince.IsZero() && now.Sub(r.outpacedSince) < falseAlarm {
		r.patience, r.patienceChanged = min(r.patience+1, maxPatience), now
	}
	r = r.observe(w, now)
	if settled {
		r.owingSince, r.outpacedSince = time.Time{}, time.Time{}
	}
	return r
}

// observe records a status that did not come from a check, such as a refused connection. For a
// backend that was silent, the status counts from now on.
func (r record) observe(w status, now time.Time) record {
	if r.status != w || r.isSilent(now) {
		if r.since = now; r.status == unchecked && !r.isSilent(now) {
			r.since = time.Time{}
		}
	}
	r.status = w
	return r
}

// owedFor returns how long the backend has owed an answer.
func (r record) owedFor(now time.Time) time.Duration {
	if r.owingSince.IsZero() {
		return 0
	}
	return now.Sub(r.owingSince)
}

func (r record) isSilent(now time.Time) bool {
	return r.owedFor(now) >= stallAfter || !r.outpacedSince.IsZero()
}

// isUp reports whether the backend counts in the number of which at most half may be cut: its machine
// accepts connections, and it has not stayed silent for long after being cut.
func (r record) isUp(now time.Time) bool {
	longCut := !r.owingSince.IsZero() && r.lastCut.After(r.owingSince) && now.Sub(r.lastCut) >= probation
	return r.status != unreachable && r.status != closed && !longCut
}

// isFasterThan reports whether the backend has answered checks sent later than the one that other
// still owes, and does not owe an answer itself.
func (r record) isFasterThan(other record, now time.Time) bool {
	return !other.owingSince.IsZero() && !r.recentChecks[0].Before(other.owingSince) && r.owedFor(now) < slowAfter
}

// isOnProbation reports whether the backend was cut, and either that was recent or it has not
// yet proven to be well again.
func (r record) isOnProbation(now time.Time) bool {
	well := r.isHealthy(now) && now.Sub(r.since) >= proof
	return r.isUp(now) && !r.lastCut.IsZero() && (now.Sub(r.lastCut) < probation || !well)
}

// isHealthy reports whether connections would do better here than on a backend that stalls.
func (r record) isHealthy(now time.Time) bool {
	return r.status == ready && r.owedFor(now) < slowAfter && !r.leaving
}

// rank orders backends by preference, the best first. Even the worst is used if there
// is no other: its answer to the client is the truth.
func (r record) rank(now time.Time) int {
	switch {
	case r.status == unreachable:
		return 5
	case r.status == closed:
		return 4
	case r.isSilent(now):
		return 3
	case r.status != ready, r.leaving:
		return 2
	case !r.isHealthy(now), now.Sub(r.since) < proof:
		return 1
	}
	return 0
}

// choose returns the best backend that is not left out, in round-robin order from
// next among equals; -1 if all are left out.
func choose(records []record, next int, leftOut func(int) bool, now time.Time) int {
	best := -1
	for n := range records {
		i := (next + n) % len(records)
		if !leftOut(i) && (best < 0 || records[i].rank(now) < records[best].rank(now)) {
			best = i
		}
	}
	return best
}

// action is what happens to a backend's open connections.
type action int

const (
	keep  action = iota
	drain        // each is closed when it is idle
	cut          // all are closed at once
)

// forgetFalseAlarms undoes the effect of false alarms as time passes.
func (r record) forgetFalseAlarms(now time.Time) record {
	if r.patience > 0 && now.Sub(r.patienceChanged) >= calmTime {
		r.patience, r.patienceChanged = r.patience-1, now
	}
	return r
}

// patienceLimit returns how long a backend may owe an answer: by its own patience, or the second
// highest of all if that is higher.
func patienceLimit(records []record, i int) time.Duration {
	var all []int
	for _, r := range records {
		all = append(all, r.patience)
	}
	slices.Sort(all)
	return cutAfter << max(records[i].patience, all[max(0, len(all)-2)])
}

// decide decides what happens to each backend's open connections, and returns the updated
// records. Connections are kept wherever no other backend would serve their clients better.
// Those of a silent backend are cut only while most of the others are quick, and at most
// half of the backends are cut within a probation: when most are late the host itself is
// slow, and clients that all reconnect would make it worse.
func decide(records []record, now time.Time) ([]record, []action) {
	fates := make([]action, len(records))
	out := slices.Clone(records)
	for i := range out {
		r := &out[i]
		*r = r.forgetFalseAlarms(now)
		elsewhere := false
		for j, other := range out {
			elsewhere = elsewhere || j != i && other.isHealthy(now)
		}
		refuses := r.status == closed || r.status == notReady || r.leaving
		switch {
		case !elsewhere || !refuses:
			r.drainingSince = time.Time{}
		case r.drainingSince.IsZero():
			r.drainingSince = now
		}
		if r.outpacedSince.IsZero() && r.owedFor(now) >= patienceLimit(out, i) && isOutpaced(out, i, now) {
			r.outpacedSince = now
		}
		stalls := elsewhere && !r.outpacedSince.IsZero() && (!r.lastCut.Before(r.outpacedSince) || canCut(out, i, now))
		if stalls && r.lastCut.Before(r.outpacedSince) {
			r.lastCut = now
		}
		switch {
		case r.status == unreachable, stalls, !r.drainingSince.IsZero() && now.Sub(r.drainingSince) >= drainTime:
			fates[i] = cut
		case !r.drainingSince.IsZero():
			fates[i] = drain
		}
	}
	return out, fates
}

// isOutpaced reports whether at least half of the backends that are up, and at least one, outpace
// backend i.
func isOutpaced(records []record, i int, now time.Time) bool {
	up, quicker := 0, 0
	for j, r := range records {
		if r.isUp(now) || j == i {
			up++
		}
		if j != i && r.isUp(now) && r.isFasterThan(records[i], now) {
			quicker++
		}
	}
	return quicker > 0 && 2*quicker >= up
}

// canCut reports whether backend i can be cut such that at least half of the backends
// that are up remain.
func canCut(records []record, i int, now time.Time) bool {
	up, lost := 0, 0
	for j, r := range records {
		if r.isUp(now) || j == i {
			up++
		}
		if j == i || r.isOnProbation(now) {
			lost++
		}
	}
	return 2*lost <= up
}

// isUrgent reports whether a backend is late, in which case the others are checked sooner to
// see how quick they are.
func isUrgent(records []record, now time.Time) bool {
	return slices.ContainsFunc(records, func(r record) bool {
		return r.owedFor(now) >= slowAfter && r.outpacedSince.IsZero() && r.isUp(now)
	})
}
